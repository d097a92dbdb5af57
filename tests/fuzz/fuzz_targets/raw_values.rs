//! A body of single values, as JSON or a number a line: refused, or each value is inside the cells that are kept.
#![no_main]

use contador_agent::http::params::Params;
use contador_agent::http::unit::Unit;
use contador_agent::http::values::{aborted, json, lines, record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let mut lists = Vec::new();
    if let Ok(values) = json(body, &mut Params::default()) {
        lists.push(values.values);
        if let Some(Ok(cells)) = values.aborted.as_deref().map(|list| aborted(list, Unit::default())) {
            assert_eq!(cells.count(), values.aborted.map_or(0, |list| list.len() as u64));
        }
    }
    lists.extend(lines(body));
    for list in lists {
        let Ok(recorded) = record(&list, Unit::default()) else { continue };
        assert_eq!(recorded.cells.count(), list.len() as u64);
        let cells = recorded.cells.as_slice();
        assert!(list.iter().all(|value| cells.iter().any(|cell| cell.lo <= *value && *value <= cell.hi)));
    }
});
