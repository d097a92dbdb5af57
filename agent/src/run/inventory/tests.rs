//! What is told of two inventories, and what is left of one after a restart.

use super::*;
use crate::sensors::Reading;

fn gpu(uuid: &str, facts: &[(&'static str, Option<&str>)]) -> GpuIdentity {
    let mut all = Facts::default();
    facts.iter().for_each(|(name, value)| all.set(name, value.map(str::to_owned)));
    GpuIdentity {
        uuid: uuid.to_owned(),
        name: "NVIDIA L4".to_owned(),
        index: 0,
        pci_bus_id: None,
        minor: None,
        serial: None,
        memory_total_bytes: Reading::Value(1 << 30),
        power_limit_mw: Reading::Value(1),
        driver_version: "570".to_owned(),
        cuda_version: None,
        architecture: None,
        simulated: false,
        mig: None,
        facts: all,
    }
}

/// Kind, device, field, old and new value of each event.
fn told(events: &[Event]) -> Vec<(&str, &str, String)> {
    let attribute = |event: &Event, name: &str| {
        let found = event.attributes.iter().find(|(known, _)| *known == name);
        found.map_or("-".to_owned(), |(_, value)| value.clone())
    };
    let values = |event: &Event| {
        [names::INVENTORY_FIELD, names::INVENTORY_OLD, names::INVENTORY_NEW]
            .map(|name| attribute(event, name))
            .join(" ")
    };
    events.iter().map(|event| (event.kind, event.device.as_deref().unwrap_or(""), values(event))).collect()
}

const VBIOS: &str = names::HW_FIRMWARE;

#[test]
fn each_change_of_a_fact_is_told_with_its_old_and_new_value() {
    let old = [
        gpu("GPU-1", &[(names::HW_DRIVER_VERSION, Some("570")), (VBIOS, Some("95")), (names::ECC_MODE, None)]),
        gpu("GPU-2", &[(names::HW_DRIVER_VERSION, Some("570")), (VBIOS, Some("95"))]),
    ];
    let new = [
        gpu(
            "GPU-1",
            &[(names::HW_DRIVER_VERSION, Some("580")), (VBIOS, Some("96")), (names::ECC_MODE, Some("enabled"))],
        ),
        gpu("GPU-2", &[(names::HW_DRIVER_VERSION, Some("580")), (names::DEVICE_MINOR, Some("4"))]),
    ];
    let (old, new) = (Inventory::of(old, true), Inventory::of(new, true));
    let events = changes(&old, &new, 7);
    assert_eq!(
        told(&events),
        [
            ("inventory_changed", "", format!("{} 570 580", names::HW_DRIVER_VERSION)),
            ("inventory_changed", "GPU-1", format!("{} - enabled", names::ECC_MODE)),
            ("inventory_changed", "GPU-1", format!("{VBIOS} 95 96")),
        ],
        "the driver once for the node; what could not be read, or was never asked before, is no change"
    );
    assert_eq!(events[1].message, "contador.device.ecc_mode of GPU-1 changed from none to \"enabled\"");
    assert_eq!((events[0].ts_ms, changes(&new, &new, 7).len()), (7, 0));
}

#[test]
fn devices_that_come_and_go_are_told_unless_some_do_not_answer() {
    let all = Inventory::of([gpu("GPU-1", &[]), gpu("GPU-2", &[(names::DEVICE_PCI, Some("0:01"))])], true);
    let one = |complete| Inventory::of([gpu("GPU-1", &[])], complete);
    assert_eq!(told(&changes(&one(true), &all, 0)), [("gpu_added", "GPU-2", "- - -".to_owned())]);
    let removed = changes(&all, &one(true), 0);
    assert_eq!(told(&removed), [("gpu_removed", "GPU-2", "- - -".to_owned())]);
    assert_eq!(removed[0].attributes, [(names::DEVICE_PCI, "0:01".to_owned())]);
    assert_eq!(removed[0].message, "GPU-2 (NVIDIA L4) was removed");
    assert_eq!(changes(&all, &one(false), 0), []);
    let part = gpu("MIG-1", &[(names::HW_PARENT, Some("GPU-1"))]);
    let split = Inventory::of([gpu("GPU-1", &[]), part], true);
    assert_eq!(changes(&one(true), &split, 0)[0].kind, "mig_added");
    assert_eq!(changes(&split, &one(true), 0)[0].kind, "mig_removed");
}

#[tokio::test]
async fn the_last_inventory_survives_a_restart_and_a_damaged_one_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let open = |events: &mut Vec<Event>| InventoryLog::open(dir.path(), true, events, 1);
    let vbios = |version| gpu("GPU-1", &[(VBIOS, version), (names::HW_SERIAL, Some("165"))]);
    let mut events = Vec::new();
    let mut log = open(&mut events);
    assert_eq!(log.note([vbios(Some("95"))], true, 1), [], "there is nothing to compare the first one with");
    log.save().await;

    let mut log = open(&mut events);
    let change = format!("{VBIOS} 95 96");
    assert_eq!(told(&log.note([vbios(Some("96"))], true, 2)), [("inventory_changed", "GPU-1", change.clone())]);
    // Killed before it was kept: told once more, and not hidden.
    let mut log = open(&mut events);
    assert_eq!(told(&log.note([vbios(Some("96"))], true, 3)), [("inventory_changed", "GPU-1", change)]);
    log.save().await;
    // Of a GPU that does not answer, what was known before stays.
    assert_eq!(log.note([] as [GpuIdentity; 0], false, 4), []);
    log.save().await;
    assert_eq!(open(&mut events).note([vbios(Some("96"))], true, 5), []);
    assert_eq!(events, []);

    // Whoever does not want serial numbers finds none.
    let mut quiet = InventoryLog::open(dir.path(), false, &mut events, 6);
    let silent = gpu("GPU-1", &[(VBIOS, Some("96"))]);
    assert_eq!(quiet.note([silent], true, 6), []);
    quiet.save().await;
    let path = dir.path().join("inventory");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(names::HW_SERIAL) && text.contains(VBIOS), "{text}");

    for damage in
        [text.replace("96", "97"), text[..text.len() / 2].to_owned(), String::new(), "x".repeat(99), "\u{0}".into()]
    {
        fs::write(&path, &damage).unwrap();
        let mut events = Vec::new();
        let mut log = open(&mut events);
        assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), ["inventory_damaged"], "{damage:?}");
        assert_eq!(log.note([vbios(Some("96"))], true, 8), []);
        log.save().await;
        assert!(load(&path).unwrap().is_some());
    }
}

#[tokio::test]
async fn a_disk_that_is_full_stops_nothing_and_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let full = dir.path().join("inventory.new");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let mut log = InventoryLog::open(dir.path(), true, &mut Vec::new(), 0);
    log.note([gpu("GPU-1", &[])], true, 0);
    log.save().await;
    assert_eq!(load(&dir.path().join("inventory")).unwrap(), None);
    fs::remove_file(&full).unwrap();
    log.save().await;
    assert!(load(&dir.path().join("inventory")).unwrap().is_some());
}
