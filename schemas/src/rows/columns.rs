//! Columns that can be found by their names: what metrics are values of, and what is known of a device.

/// A column of a row, by reference, with its type. `None` in it is *not measured*.
#[derive(Debug, PartialEq)]
pub enum Slot<'a> {
    /// A share, or another number that is not counted.
    F32(&'a mut Option<f32>),
    /// A whole number.
    U64(&'a mut Option<u64>),
    /// A whole number of 32 bits.
    U32(&'a mut Option<u32>),
    /// A whole number of 16 bits, which may be negative.
    I16(&'a mut Option<i16>),
    /// Yes or no.
    Bool(&'a mut Option<bool>),
    /// A word.
    Text(&'a mut Option<String>),
}

/// A column of the row `R`.
pub type Column<R> = for<'a> fn(&'a mut R) -> Slot<'a>;

/// A row whose columns, beside what it is known by, can be found by their names.
pub trait ByColumn: Default + 'static {
    /// Names of the columns that hold values, in the order of the table.
    const COLUMNS: &'static [&'static str];

    /// The column of this name; `None` when there is none.
    fn column(name: &str) -> Option<Column<Self>>;
}

macro_rules! slots {
    ($($variant:ident $kind:ty),*) => {
        $(impl<'a> From<&'a mut Option<$kind>> for Slot<'a> {
            fn from(column: &'a mut Option<$kind>) -> Self {
                Self::$variant(column)
            }
        })*
    };
}

slots! { F32 f32, U64 u64, U32 u32, I16 i16, Bool bool, Text String }

/// Declares a row: what it is known by, and then, after `values`, columns that are optional and can be found by name.
macro_rules! columns {
    ($(#[$meta:meta])* $row:ident {
        $($(#[$key_meta:meta])* $key:ident: $key_kind:ty,)*
    } values {
        $($(#[$column_meta:meta])* $column:ident: $kind:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, serde::Deserialize, PartialEq, clickhouse::Row, serde::Serialize)]
        pub struct $row {
            $($(#[$key_meta])* pub $key: $key_kind,)*
            $($(#[$column_meta])* pub $column: Option<$kind>,)*
        }

        impl $crate::rows::ByColumn for $row {
            const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),*];

            fn column(name: &str) -> Option<$crate::rows::Column<Self>> {
                match name {
                    $(stringify!($column) => Some(|row| (&mut row.$column).into()),)*
                    _ => None,
                }
            }
        }
    };
}
pub(super) use columns;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::names::{Group, metrics};
    use crate::rows::{ByColumn, GpuSample, NodeSample, StorageSample};

    #[test]
    fn each_value_that_a_sensor_reads_has_its_column_and_each_column_a_value() {
        fn of<R: ByColumn>(group: Group) {
            let of_group = || metrics().filter(|metric| metric.group == group);
            let wanted = of_group().flat_map(|metric| metric.variants.iter().map(|variant| variant.column));
            let wanted: HashSet<&str> = wanted.collect();
            let there: HashSet<&str> = R::COLUMNS.iter().copied().collect();
            assert_eq!(wanted, there, "{group:?}: the registry on the left, the row on the right");
            assert!(R::COLUMNS.iter().all(|column| R::column(column).is_some()));
            assert!(R::column("ts").is_none(), "what a row is known by is no value");
        }
        of::<GpuSample>(Group::Gpu);
        of::<StorageSample>(Group::Storage);
        of::<NodeSample>(Group::Node);
    }

    #[test]
    fn one_column_has_one_metric() {
        let mut seen = HashSet::new();
        for metric in metrics() {
            let columns: HashSet<&str> = metric.variants.iter().map(|variant| variant.column).collect();
            for column in columns.into_iter().filter(|column| !column.is_empty()) {
                assert!(seen.insert((metric.group as u8, column)), "{column} of {} is of another one too", metric.name);
            }
        }
    }
}
