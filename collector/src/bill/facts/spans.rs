//! The spans of a period: the same cuts in Rust and in SQL. A row of the ledger lies in the span in which its minute starts.

/// A period, or a window before it, with its cuts.
#[derive(Clone, Debug)]
pub(super) struct Spans {
    /// Unix milliseconds.
    pub from: i64,
    /// Unix milliseconds, exclusive.
    pub to: i64,
    /// Unix milliseconds inside, in order.
    cuts: Vec<i64>,
    /// Also cut at multiples of so many milliseconds; 0 for none.
    step: i64,
}

impl Spans {
    /// From `from` to `to`, cut at `cuts` and at multiples of `step`, unless that is 0.
    pub fn new(from: i64, to: i64, cuts: &[i64], step: i64) -> Self {
        Self { from, to, cuts: cuts.to_vec(), step }
    }

    /// The same with another step.
    pub fn by(&self, step: i64) -> Self {
        Self { step, ..self.clone() }
    }

    /// The start of the span in which an instant lies.
    pub fn start(&self, at: i64) -> i64 {
        let next = self.cuts.partition_point(|cut| *cut <= at);
        let cut = next.checked_sub(1).and_then(|last| self.cuts.get(last)).copied().unwrap_or(self.from);
        if self.step == 0 { cut } else { cut.max(at - at.rem_euclid(self.step)) }
    }

    /// The end of the span that starts, or in which lies, an instant.
    pub fn end(&self, at: i64) -> i64 {
        let next = self.cuts.partition_point(|cut| *cut <= at);
        let cut = self.cuts.get(next).copied().unwrap_or(self.to);
        if self.step == 0 { cut } else { cut.min(at - at.rem_euclid(self.step) + self.step) }
    }

    /// [`Spans::start`] of an expression, as SQL; `step` is one too.
    pub fn start_sql(&self, at: &str, step: &str) -> String {
        let cut = format!("roundDown({at}, {})", self.starts());
        match step {
            "0" => cut,
            step => format!(
                "greatest({cut}, if({step} = 0, toInt64({}), intDiv({at}, greatest({step}, 1)) * {step}))",
                self.from
            ),
        }
    }

    /// The start of the span in which a column of type `DateTime` lies, as SQL.
    pub fn start_of(&self, column: &str) -> String {
        self.start_sql(&format!("toInt64(toUnixTimestamp({column})) * 1000"), &self.step.to_string())
    }

    /// The start of the span of a row of the ledger, as SQL.
    pub fn of_minute(&self) -> String {
        self.start_of("minute")
    }

    /// Whether its steps are whole hours.
    pub const fn are_hours(&self) -> bool {
        self.step % 3_600_000 == 0
    }

    /// Its cuts.
    pub fn inner(&self) -> &[i64] {
        &self.cuts
    }

    /// Its whole Unix seconds.
    pub fn seconds(&self) -> (u32, u32) {
        let whole = |ms| u32::try_from(seconds(ms)).unwrap_or(u32::MAX);
        (whole(self.from), whole(self.to))
    }

    /// The cuts, as a ClickHouse array.
    pub fn cuts(&self) -> String {
        numbers(self.cuts.iter().copied())
    }

    fn starts(&self) -> String {
        numbers(std::iter::once(self.from).chain(self.cuts.iter().copied()))
    }

    /// The condition under which an allocation has a part in it.
    pub fn touches(&self) -> String {
        let (from, to) = (self.from, self.to);
        format!("start < fromUnixTimestamp64Milli(toInt64({to})) AND `end` > fromUnixTimestamp64Milli(toInt64({from}))")
    }

    /// The condition under which a ledger row belongs to it.
    pub fn in_minutes(&self) -> String {
        let (from, to) = (seconds(self.from), seconds(self.to));
        format!("minute >= toDateTime({from}, 'UTC') AND minute < toDateTime({to}, 'UTC')")
    }
}

/// Whole numbers as a ClickHouse array. As text they take little of a query, however many they are.
fn numbers(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    if numbers.is_empty() {
        return "emptyArrayInt64()".to_owned();
    }
    format!("arrayMap(number -> toInt64(number), splitByChar(',', '{}'))", numbers.join(","))
}

/// The first whole Unix second at or after a millisecond; a `DateTime` has none before 1970.
pub(in crate::bill) fn seconds(ms: i64) -> i64 {
    (ms.div_euclid(1_000) + i64::from(ms.rem_euclid(1_000) > 0)).max(0)
}

/// Texts as the inside of a ClickHouse list.
pub(super) fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quoted(text)).collect();
    quoted.join(",")
}

/// A text as a ClickHouse literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_lie_between_cuts_and_steps() {
        let plain = Spans::new(100, 10_000, &[700, 5_300], 0);
        for (at, start, end) in [(100, 100, 700), (699, 100, 700), (700, 700, 5_300), (9_999, 5_300, 10_000)] {
            assert_eq!((plain.start(at), plain.end(at)), (start, end), "{at}");
        }
        let stepped = plain.by(1_000);
        for (at, start, end) in [
            (100, 100, 700),
            (999, 700, 1_000),
            (1_000, 1_000, 2_000),
            (5_250, 5_000, 5_300),
            (5_999, 5_300, 6_000),
            (9_500, 9_000, 10_000),
        ] {
            assert_eq!((stepped.start(at), stepped.end(at)), (start, end), "{at}");
            assert_eq!((stepped.start(start), stepped.end(start)), (start, end), "{at}");
        }
    }

    #[test]
    fn texts_stay_texts() {
        assert_eq!(texts(&["a".to_owned(), r"b\'c".to_owned()]), r"'a','b\\\'c'");
    }
}
