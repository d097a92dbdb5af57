//! Why points are not accepted. Each rejected point has one reason; they are counted and told to the sender.

use std::collections::BTreeMap;

macro_rules! reasons {
    ($($variant:ident $name:literal $expectation:literal)*) => {
        /// Why a point was rejected.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Reason {
            $(#[doc = $expectation] $variant,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in counters.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What was expected, for people.
            pub const fn expectation(self) -> &'static str {
                match self { $(Self::$variant => $expectation),* }
            }
        }
    };
}

reasons! {
    Time "time" "expected a time that is given, at most 10 minutes ahead of the collector's clock, and no start after it"
    TooOld "too_old" "expected nanoseconds, and a time that its table still keeps (14 days; events 400 days, ledger 3 years)"
    NotANumber "not_a_number" "expected a number, got NaN or infinity"
    Negative "negative" "expected a number that is not negative"
    OutOfRange "out_of_range" "expected a number that the quantity can have (a share is 0 to 1)"
    NoValue "no_value" "expected a value, or the no-recorded-value flag"
    NoData "no_data" "expected a gauge, a sum, a histogram or an exponential histogram with data"
    Temporality "temporality" "expected delta or cumulative"
    Shape "shape" "expected the unit and kind of metric that contador's own name stands for"
    Attribute "attribute" "expected an attribute that the metric cannot be understood without"
    Conflicting "conflicting" "expected one value for each metric of a device, owner or series at an instant"
    OwnerId "owner_id" "expected the id that the owner's attributes or kind make"
    LedgerInterval "ledger_interval" "expected one whole utc minute, and no part longer than it"
    LedgerIncomplete "ledger_incomplete" "expected every metric of a ledger row in one request"
    Summary "summary" "expected a histogram: quantiles of a summary cannot be added up"
    HistogramUnit "histogram_unit" "expected a unit of time: ns, us, ms, s, min or h"
    Buckets "buckets" "expected bounds that rise, one count more than bounds, and at most 131072 buckets"
    Torn "torn" "expected a count that is the sum of the buckets"
    Sum "implausible_sum" "expected a sum that values in these buckets can have"
    NegativeRange "negative_range" "expected latencies that are not negative"
    OutOfOrder "out_of_order" "expected a running total in the order of time: a later point counts less, or is of a later run"
    SeriesLimit "series_limit" "expected fewer cumulative series than the configured limit"
    Stored "refused_by_clickhouse" "expected a row that the table takes; it is kept in dead_letters"
}

/// How many points were rejected, by reason, with the first metric's name as an example.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rejected {
    reasons: BTreeMap<Reason, (u64, String)>,
}

impl Rejected {
    /// Counts `points` of the metric `name`.
    pub fn add(&mut self, reason: Reason, points: u64, name: &str) {
        if points == 0 {
            return;
        }
        let (count, example) = self.reasons.entry(reason).or_insert_with(|| (0, name.to_owned()));
        *count += points;
        if name < example.as_str() {
            name.clone_into(example);
        }
    }

    /// Adds what another part rejected.
    pub fn merge(&mut self, other: &Self) {
        for (&reason, (count, name)) in &other.reasons {
            self.add(reason, *count, name);
        }
    }

    /// How many points in all.
    pub fn points(&self) -> u64 {
        self.reasons.values().map(|(count, _)| count).sum()
    }

    /// Reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        self.reasons.iter().map(|(&reason, (count, _))| (reason, *count))
    }

    /// How many points were rejected for this reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.reasons.get(&reason).map_or(0, |(count, _)| *count)
    }

    /// The reasons in words, for the sender; empty when nothing was rejected.
    pub fn message(&self) -> String {
        let told: Vec<String> = self
            .reasons
            .iter()
            .map(|(reason, (count, name))| {
                format!("{} {count} (such as {name:?}): {}", reason.as_str(), reason.expectation())
            })
            .collect();
        told.join("; ")
    }
}
