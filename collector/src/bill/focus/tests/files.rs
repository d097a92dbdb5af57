//! What is written is what the rows say.

use std::collections::BTreeSet;

use num_bigint::BigInt;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use super::sample;
use crate::bill::focus::columns::{self, Level};
use crate::bill::focus::row::cost;
use crate::bill::focus::value::{Properties, Trillionths};
use crate::bill::focus::{ParquetWriter, csv};
use crate::bill::parquet::Kind;

fn csv_of_sample() -> String {
    let mut writer = csv::Writer::new(Vec::new()).unwrap();
    sample::rows().iter().for_each(|row| writer.row(row).unwrap());
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn all_57_columns_of_focus_1_2_are_there_once() {
    let names: BTreeSet<&str> = columns::all().map(|column| column.name).collect();
    assert_eq!(names.len(), columns::all().count());
    let own = |column: &&columns::Column| column.level == Level::Own;
    assert_eq!(columns::all().filter(|column| !own(column)).count(), 57);
    assert!(columns::all().filter(own).all(|column| column.name.starts_with("x_")));
    let levels = [Level::Mandatory, Level::Conditional, Level::Recommended];
    let counts = levels.map(|level| columns::all().filter(|column| column.level == level).count());
    // What the specification says of each column's presence: MUST, MUST on a condition, RECOMMENDED.
    assert_eq!(counts, [21, 32, 4]);
    let costs = ["BilledCost", "EffectiveCost", "ListCost", "ContractedCost"];
    let never_null = |name: &str| columns::all().any(|column| column.name == name && !column.nullable);
    assert!(costs.iter().all(|name| never_null(name)));
}

#[test]
fn csv_is_read_back_as_it_was() {
    assert_eq!(csv::read(csv_of_sample().as_bytes()).unwrap(), sample::rows());
}

#[test]
fn texts_are_quoted_and_numbers_never_look_whole() {
    let text = csv_of_sample();
    let line = text.lines().nth(1).unwrap();
    assert!(line.contains(r#","contador:invoice/202610","#) && line.contains(r#","research","Department","#), "{line}");
    assert!(line.contains(",251.250000,251.250000,301.500000,3.000000000000,"), "{line}");
    assert!(line.contains(r#"2026-09-30T22:00:00Z,2026-10-31T23:00:00Z"#), "{line}");
    assert!(line.contains(r#""{""team"":""vision \""a\"", b""}""#), "{line}");
    assert!(!line.contains(r#""""#.repeat(2).as_str()), "{line}");
}

#[test]
fn parquet_has_the_same_columns_and_values() {
    let mut writer = ParquetWriter::new(Vec::new()).unwrap();
    let rows = sample::rows();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    let reader = SerializedFileReader::new(bytes::Bytes::from(writer.finish().unwrap())).unwrap();
    let read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(read.len(), rows.len());
    for (row, read) in rows.iter().zip(&read) {
        for (column, (name, field)) in columns::all().zip(read.get_column_iter()) {
            assert_eq!(column.name, name);
            let text = match (field, column.kind) {
                (parquet::record::Field::Null, _) => String::new(),
                (parquet::record::Field::Str(text), _) => text.clone(),
                (parquet::record::Field::Bool(value), _) => value.to_string(),
                (parquet::record::Field::TimestampMillis(ms), _) => {
                    jiff::Timestamp::from_millisecond(*ms).unwrap().to_string()
                }
                (parquet::record::Field::Decimal(value), Kind::Decimal { scale }) => {
                    assert_eq!(value.scale(), i32::from(scale));
                    let whole = BigInt::from_signed_bytes_be(value.data());
                    crate::bill::decimal::fixed(i128::try_from(whole).unwrap(), scale)
                }
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(text, column.text(row), "{name}");
        }
    }
}

#[test]
fn b18_a_file_with_another_word_number_or_instant_is_refused() {
    let said = |from: &str, to: &str| {
        let text = csv_of_sample().replacen(from, to, 1);
        csv::read(text.as_bytes()).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let category =
        r#"row 1: ChargeCategory: "Compute", expected one of ["Usage", "Purchase", "Tax", "Credit", "Adjustment"]"#;
    assert_eq!(said(r#""Usage""#, r#""Compute""#), [category]);
    assert_eq!(
        said("251.250000", "251"),
        [r#"row 1: BilledCost: "251", expected a decimal with 6 digits after the point"#]
    );
    assert_eq!(said("251.250000", ""), [r#"row 1: BilledCost: "", expected a decimal with 6 digits after the point"#]);
    let instant = r#"row 1: BillingPeriodStart: "2026-09-30", expected an instant such as 2026-10-01T00:00:00Z"#;
    assert_eq!(said("2026-09-30T22:00:00Z", "2026-09-30"), [instant]);
    let zoned = said("2026-09-30T22:00:00Z", "2026-10-01T00:00:00+02:00");
    assert!(zoned[0].ends_with("expected an instant such as 2026-10-01T00:00:00Z"), "{zoned:?}");
    assert_eq!(said("BilledCost", "BiledCost")[0], r#"BilledCost: "", expected the column"#);
    assert_eq!(said(r#""EUR","#, r#""","#)[0], r#"row 1: BillingCurrency: "", expected a text"#);
}

#[test]
fn the_same_rows_are_the_same_bytes() {
    let parquet = || {
        let mut writer = ParquetWriter::new(Vec::new()).unwrap();
        sample::rows().iter().for_each(|row| writer.row(row).unwrap());
        writer.finish().unwrap()
    };
    assert_eq!(parquet(), parquet());
    assert_eq!(csv_of_sample(), csv_of_sample());
}

#[test]
fn an_amount_that_no_file_has_room_for_is_refused() {
    let mut row = sample::rows().remove(0);
    row.billed_cost.0 = BigInt::from(10).pow(38);
    let said = csv::Writer::new(Vec::new()).unwrap().row(&row).unwrap_err();
    assert_eq!(said.to_string(), "BilledCost: an amount of more than 38 digits");
    assert!(ParquetWriter::new(Vec::new()).unwrap().row(&row).is_err());
    row.billed_cost.0 = BigInt::from(10).pow(60);
    assert!(csv::Writer::new(Vec::new()).unwrap().row(&row).is_err());
}

proptest! {
    #[test]
    fn any_texts_go_through_csv(name in "(?s).{1,12}", key in "(?s).{0,5}", value in "(?s).{0,12}") {
        let mut row = sample::rows().remove(0);
        row.charge_description = name.clone();
        row.project = Some(name);
        row.tags = Some(Properties([(key, value)].into()));
        let mut writer = csv::Writer::new(Vec::new()).unwrap();
        writer.row(&row).unwrap();
        prop_assert_eq!(csv::read(writer.finish().unwrap().as_slice()).unwrap(), vec![row]);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0..9_000_usize) {
        let _ = csv::read(bytes.as_slice());
        let good = csv_of_sample();
        let head = &good.as_bytes()[..cut.min(good.len())];
        let _ = csv::read([head, &bytes].concat().as_slice());
    }

    #[test]
    fn a_cost_is_the_product_rounded_half_away_from_zero(price in 0..=10_i128.pow(18), quantity in -10_i128.pow(18)..=10_i128.pow(18)) {
        let rounded = cost(Trillionths(price), Trillionths(quantity)).0;
        let one = BigInt::from(10).pow(18);
        let off = BigInt::from(price) * quantity - &rounded * &one;
        prop_assert!(num_traits::Signed::abs(&(off.clone() * 2)) <= one);
        prop_assert_eq!(cost(Trillionths(price), Trillionths(-quantity)).0, -rounded);
    }
}
