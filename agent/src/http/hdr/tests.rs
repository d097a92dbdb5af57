//! What clients send, and what attackers do.

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
use proptest::prelude::*;

use super::*;

const MAX: usize = 1 << 20;

fn v2(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).unwrap();
    bytes
}

fn deflated(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
    bytes
}

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    for &value in values {
        histogram.record(value).unwrap();
    }
    histogram
}

#[test]
fn all_four_forms_give_the_same_cells() {
    let histogram = histogram(&[0, 1, 1, 1_500, 2_047, 2_048, 2_049, 1_000_000, 3_600_000_000]);
    let expected = decode(&v2(&histogram), MAX, Unit::Microseconds).unwrap();
    assert_eq!(expected.cells.count(), 9);
    let first = expected.cells.as_slice()[0];
    assert_eq!((first.lo, first.hi, first.n), (0.0, 0.0, 1));
    let wide = expected.cells.as_slice().iter().find(|cell| cell.lo == 2_048.0).unwrap();
    assert_eq!((wide.hi, wide.n), (2_049.0, 2));
    assert_eq!(decode(&deflated(&histogram), MAX, Unit::Microseconds).unwrap(), expected);
    for bytes in [v2(&histogram), deflated(&histogram)] {
        let mut text = STANDARD.encode(bytes);
        text.insert(9, '\n');
        assert_eq!(decode(text.as_bytes(), MAX, Unit::Microseconds).unwrap(), expected);
    }
}

#[test]
fn l15_an_empty_histogram_is_no_traffic_and_no_error() {
    let decoded = decode(&deflated(&histogram(&[])), MAX, Unit::Microseconds).unwrap();
    assert_eq!((decoded.cells.count(), decoded.sum_us), (0, 0.0));
}

#[test]
fn l14_a_declared_length_is_not_believed() {
    let mut bytes = v2(&histogram(&[5]));
    bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    let message = decode(&bytes, MAX, Unit::Microseconds).unwrap_err().to_string();
    let present = bytes.len() - 40;
    assert_eq!(message, format!("the payload is declared as 4294967295 bytes, expected {present}"));
    let mut bytes = deflated(&histogram(&[5]));
    bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(
        decode(&bytes, MAX, Unit::Microseconds)
            .unwrap_err()
            .to_string()
            .starts_with("the deflated part is declared as 4294967295")
    );
}

#[test]
fn a_bomb_is_not_inflated() {
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut bomb, &vec![0; 8 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    let mut bytes = V2_DEFLATE.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
    bytes.extend(bomb);
    assert!(matches!(decode(&bytes, MAX, Unit::Microseconds), Err(HdrError::TooLarge(MAX))));
}

#[test]
fn a_shape_that_would_take_much_memory_is_refused() {
    let mut bytes = v2(&histogram(&[5]));
    bytes[12..16].copy_from_slice(&5_u32.to_be_bytes());
    bytes[24..32].copy_from_slice(&(u64::MAX / 2).to_be_bytes());
    let message = decode(&bytes, MAX, Unit::Microseconds).unwrap_err().to_string();
    assert!(message.contains("expected one with at most 1048576 counts"), "{message}");
}

#[test]
fn l12_counts_have_64_bits() {
    let mut many: Histogram<u64> = Histogram::new(3).unwrap();
    many.record_n(7_000, 300).unwrap();
    many.record_n(9_000, u64::from(u32::MAX) * 5).unwrap();
    let decoded = decode(&deflated(&many), MAX, Unit::Microseconds).unwrap();
    let counts: Vec<u64> = decoded.cells.as_slice().iter().map(|cell| cell.n).collect();
    assert_eq!(counts, [300, 21_474_836_475]);
}

#[test]
fn l13_histograms_of_other_shapes_keep_their_own_cells() {
    // 1 digit: cells of up to 1/16 of the value; from 1,000 on: cells of at least 512.
    for (mut other, value, width) in [
        (Histogram::<u64>::new(1).unwrap(), 1_000_000, 32_767.0),
        (Histogram::new_with_bounds(1_000, 3_600_000_000, 3).unwrap(), 700, 511.0),
        (Histogram::new_with_bounds(1_000, 3_600_000_000, 3).unwrap(), 1_000_000, 511.0),
        (Histogram::new(3).unwrap(), 1_000_000, 511.0),
        (Histogram::new(5).unwrap(), 1_000_000, 3.0),
    ] {
        other.record(value).unwrap();
        let decoded = decode(&deflated(&other), MAX, Unit::Microseconds).unwrap();
        let [cell] = decoded.cells.as_slice() else { panic!("one cell: {decoded:?}") };
        #[expect(clippy::cast_precision_loss, reason = "a million")]
        let value = value as f64;
        assert!(cell.lo <= value && value <= cell.hi, "{cell:?}");
        assert_eq!((cell.hi - cell.lo, cell.n), (width, 1), "{cell:?}");
    }
}

#[test]
fn a_unit_scales_the_edges() {
    let ns = decode(&v2(&histogram(&[300, 1_234_567])), MAX, Unit::Nanoseconds).unwrap();
    let cells = ns.cells.as_slice();
    assert_eq!((cells[0].lo, cells[0].hi), (0.3, 0.3));
    assert!(cells[1].lo <= 1_234.567 && 1_234.567 <= cells[1].hi && cells[1].hi - cells[1].lo < 1.234);
    let s = decode(&v2(&histogram(&[2, 9_007_199_254])), 1 << 24, Unit::Seconds);
    // 3 digits of it reach over the greatest.
    let message = s.unwrap_err().to_string();
    assert!(message.ends_with("expected at most 9007199254 seconds"), "{message}");
    let s = decode(&v2(&histogram(&[2])), MAX, Unit::Seconds).unwrap();
    assert_eq!((s.cells.as_slice()[0].lo, s.cells.as_slice()[0].hi, s.sum_us), (2e6, 2e6, 2e6));
}

#[test]
fn more_cells_than_a_collector_takes_are_refused() {
    let mut wide: Histogram<u64> = Histogram::new(4).unwrap();
    // Half of 32,768 counts in each of four doublings, and all below.
    for value in 0..32_768_u64 {
        wide.record(value).unwrap();
    }
    for exponent in 1..4 {
        for step in 0..16_384_u64 {
            wide.record((16_384 + step) << exponent).unwrap();
        }
    }
    let message = decode(&v2(&wide), 64 << 20, Unit::Microseconds).unwrap_err().to_string();
    assert_eq!(message, "the number of different values is 65001, expected at most 65000");
}

#[test]
fn other_bodies_are_named() {
    let message = decode(b"{\"p99\": 3}", MAX, Unit::Microseconds).unwrap_err().to_string();
    assert!(message.starts_with("the body begins with 7b227039, expected an HDR histogram V2"), "{message}");
    assert!(decode(b"", MAX, Unit::Microseconds).unwrap_err().to_string().starts_with("the body begins with nothing"));
    // V1 and V0.
    assert!(matches!(decode(&[0x1c, 0x84, 0x93, 0x01, 0, 0], MAX, Unit::Microseconds), Err(HdrError::Cookie(_))));
    assert!(matches!(decode(b"HISTO", MAX, Unit::Microseconds), Err(HdrError::Base64(_))));
}

proptest! {
    #[test]
    fn every_value_is_in_its_cell(mut values in prop::collection::vec(0_u64..1 << 42, 1..200)) {
        let decoded = decode(&deflated(&histogram(&values)), MAX, Unit::Microseconds).unwrap();
        values.sort_unstable();
        let mut values = values.into_iter();
        for cell in decoded.cells.as_slice() {
            for value in values.by_ref().take(usize::try_from(cell.n).unwrap()) {
                #[expect(clippy::cast_precision_loss, reason = "42 bits")]
                let value = value as f64;
                prop_assert!(cell.lo <= value && value <= cell.hi);
                prop_assert!(cell.hi - cell.lo <= cell.lo / 1_000.0);
            }
        }
        prop_assert_eq!(values.next(), None);
    }

    #[test]
    fn damaged_bytes_never_panic(
        values in prop::collection::vec(0_u64..1 << 42, 0..20),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        fix_length: bool,
    ) {
        let mut bytes = v2(&histogram(&values));
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(cut.index(bytes.len()).max(40));
        if fix_length {
            let length = u32::try_from(bytes.len() - 40).unwrap();
            bytes[4..8].copy_from_slice(&length.to_be_bytes());
        }
        let _ = decode(&bytes, MAX, Unit::Microseconds);
    }

    #[test]
    fn any_counts_never_panic(payload in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut bytes = v2(&histogram(&[1 << 40]));
        bytes.truncate(40);
        bytes[4..8].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
        bytes.extend(payload);
        let _ = decode(&bytes, MAX, Unit::Microseconds);
    }
}
