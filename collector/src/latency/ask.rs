//! What is asked: which latencies, of which time, in which steps, told apart by which labels.

use std::time::{SystemTime, UNIX_EPOCH};

use contador_schemas::cells::CellsError;
use contador_schemas::quantile::Quantile;
use contador_schemas::series::WINDOW_SECONDS;

/// Widest interval, as a ratio of its upper to its lower end, whose state is `ok` unless another is asked for.
pub const MOST_RATIO: f64 = 1.1;

/// Most steps of one answer.
pub const MOST_STEPS: u32 = 11_000;

/// Most answers in all: steps of every series that labels tell apart.
pub const MOST_ANSWERS: usize = 100_000;

/// A column or an attribute of latencies.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Label {
    /// `service.name`.
    Service,
    /// What was timed.
    Metric,
    /// Machine-learning model.
    Model,
    /// Route or operation.
    Route,
    /// `deployment.environment.name`.
    Environment,
    /// Id of the owner that served.
    Owner,
    /// Device that served.
    Device,
    /// Any other attribute, by its name on the wire.
    Attribute(String),
}

/// Names of the labels that have a column of their own.
pub const COLUMNS: [(&str, Label); 7] = [
    ("service", Label::Service),
    ("metric", Label::Metric),
    ("model", Label::Model),
    ("route", Label::Route),
    ("environment", Label::Environment),
    ("owner", Label::Owner),
    ("device", Label::Device),
];

impl Label {
    /// The column of this name, else the attribute; `label.NAME` is always the attribute.
    ///
    /// # Errors
    /// What was expected, when it names neither.
    pub fn read(text: &str) -> Result<Self, String> {
        let name = match text.strip_prefix("label.") {
            Some("") => return Err(format!("{text:?}, expected the name of an attribute after the point")),
            Some(name) => name,
            None if text.is_empty() => return Err(format!("{text:?}, expected a name of a column or of an attribute")),
            None => match COLUMNS.iter().find(|(column, _)| *column == text) {
                Some((_, label)) => return Ok(label.clone()),
                None => text,
            },
        };
        Ok(Self::Attribute(name.to_owned()))
    }

    /// What it is asked by and told as: `label.NAME` for an attribute that has the name of a column.
    pub fn shown(&self) -> String {
        match self {
            Self::Attribute(name) if COLUMNS.iter().any(|(column, _)| column == name) => format!("label.{name}"),
            label => label.name().to_owned(),
        }
    }

    /// Its name: of the column, or of the attribute.
    pub fn name(&self) -> &str {
        match self {
            Self::Attribute(name) => name,
            column => COLUMNS.iter().find(|(_, label)| label == column).map_or("", |(name, _)| name),
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Labels that must have these values; attributes that are absent have an empty one.
    pub equal: Vec<(Label, String)>,
    /// Labels that tell the answers apart.
    pub by: Vec<Label>,
    /// First instant that counts, Unix seconds.
    pub from: u32,
    /// First instant that does not count any more, Unix seconds.
    pub to: u32,
    /// Length of a step in seconds, a multiple of 10; steps begin at multiples of it since the Unix epoch. `None`: one
    /// answer for the whole time.
    pub step: Option<u32>,
    /// The quantiles, answered in this order.
    pub quantiles: Vec<Quantile>,
    /// Widest interval, as a ratio, whose state is `ok`.
    pub max_ratio: f64,
}

impl Ask {
    /// The 99th percentile of `metric` of `service` in `[from, to)`, Unix seconds.
    pub fn p99(service: &str, metric: &str, from: u32, to: u32) -> Self {
        let all = Self {
            equal: Vec::new(),
            by: Vec::new(),
            from,
            to,
            step: None,
            quantiles: vec![Quantile::P99],
            max_ratio: MOST_RATIO,
        };
        all.only(Label::Service, service).only(Label::Metric, metric)
    }

    /// The same, where `label` is `value`; an empty value asks for nothing.
    #[must_use]
    pub fn only(mut self, label: Label, value: &str) -> Self {
        if !value.is_empty() {
            self.equal.push((label, value.to_owned()));
        }
        self
    }

    /// The value that `label` must have, if there is one.
    pub fn value(&self, label: &Label) -> Option<&str> {
        self.equal.iter().find(|(asked, _)| asked == label).map(|(_, value)| value.as_str())
    }

    /// The time that is answered: that of whole windows. They are of 10 s as long as rows are kept, and of five minutes
    /// before.
    pub fn windows(&self) -> (u32, u32) {
        let since = rows_since();
        let length = |at| if at < since { ROLLED_UP_SECONDS } else { WINDOW_SECONDS };
        let from = self.from - self.from % length(self.from);
        let last = u32::MAX - u32::MAX % WINDOW_SECONDS;
        let to = self.to.checked_next_multiple_of(length(self.to)).unwrap_or(last);
        (from, to.max(from))
    }

    /// Checks what a caller may have got wrong.
    ///
    /// # Errors
    /// [`Error::Asked`].
    pub fn check(&self) -> Result<(), Error> {
        let fault = |what, message| Err(Error::Asked { what, message });
        if self.from >= self.to {
            return fault("to", format!("{}, expected a time after from, which is {}", self.to, self.from));
        }
        if self.max_ratio.is_nan() || self.max_ratio < 1.0 {
            return fault("max_ratio", format!("{}, expected a number of at least 1", self.max_ratio));
        }
        let Some(step) = self.step else { return Ok(()) };
        if step == 0 || step % WINDOW_SECONDS != 0 {
            return fault("step", format!("{step} s, expected a multiple of {WINDOW_SECONDS} s"));
        }
        let (from, to) = self.windows();
        let steps = (to - 1) / step - from / step + 1;
        if steps > MOST_STEPS {
            let least = ((to - from) / MOST_STEPS + 1).next_multiple_of(WINDOW_SECONDS);
            let message = format!(
                "{step} s makes {steps} points of {} s, expected at most {MOST_STEPS}: a step of {least} s or more",
                to - from
            );
            return fault("step", message);
        }
        if from < rows_since() && step % ROLLED_UP_SECONDS != 0 {
            let message = format!(
                "{step} s, expected a multiple of {ROLLED_UP_SECONDS} s, which is what is kept of the time before the last \
                 {ROWS_KEPT_DAYS} days"
            );
            return fault("step", message);
        }
        Ok(())
    }
}

/// Days that rows of 10 s are kept, their table's time to live.
const ROWS_KEPT_DAYS: u32 = 14;

/// Length of the windows that are kept for longer, in seconds.
const ROLLED_UP_SECONDS: u32 = 300;

/// Since when rows are surely there, Unix seconds.
fn rows_since() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u32::try_from(now).unwrap_or(u32::MAX).saturating_sub(ROWS_KEPT_DAYS * 86_400)
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// ClickHouse failed.
    #[error("reading latencies from clickhouse")]
    Store(#[from] clickhouse::error::Error),
    /// What is stored is no histogram.
    #[error("the stored cells of service {service:?}")]
    Cells {
        /// The service.
        service: String,
        /// What is wrong with them.
        #[source]
        source: CellsError,
    },
    /// What is asked can't be answered.
    #[error("{what}: {message}")]
    Asked {
        /// The parameter.
        what: &'static str,
        /// Its value, and what was expected.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_columns_or_attributes() {
        assert_eq!(Label::read("model"), Ok(Label::Model));
        assert_eq!(Label::read("label.model"), Ok(Label::Attribute("model".to_owned())));
        assert_eq!(Label::read("cloud.region"), Ok(Label::Attribute("cloud.region".to_owned())));
        assert_eq!(
            Label::read("label."),
            Err("\"label.\", expected the name of an attribute after the point".to_owned())
        );
        assert_eq!(Label::read(""), Err("\"\", expected a name of a column or of an attribute".to_owned()));
        for (name, label) in COLUMNS {
            assert_eq!((label.name(), label.shown().as_str()), (name, name));
        }
        // No two are told as one.
        assert_eq!(Label::Attribute("model".to_owned()).shown(), "label.model");
        assert_eq!(Label::Attribute("cloud.region".to_owned()).shown(), "cloud.region");
    }

    #[test]
    fn time_is_widened_to_windows_and_faults_say_what_was_expected() {
        // Rows of then are kept no longer.
        assert_eq!(Ask::p99("s", "m", 1_000_003, 1_000_021).windows(), (999_900, 1_000_200));
        let recent = rows_since() / 100 * 100 + 86_400;
        assert_eq!(Ask::p99("s", "m", recent + 3, recent + 21).windows(), (recent, recent + 30));
        assert_eq!(Ask::p99("s", "m", u32::MAX - 1, u32::MAX).windows(), (4_294_967_290, 4_294_967_290));
        let fault = |(from, to), step, max_ratio| {
            let ask = Ask { step, max_ratio, ..Ask::p99("s", "m", from, to) };
            ask.check().unwrap_err().to_string()
        };
        assert_eq!(fault((8, 7), None, 1.1), "to: 7, expected a time after from, which is 8");
        assert_eq!(fault((0, 60), Some(15), 1.1), "step: 15 s, expected a multiple of 10 s");
        assert_eq!(fault((0, 60), None, f64::NAN), "max_ratio: NaN, expected a number of at least 1");
        assert_eq!(
            fault((0, 1_000_200), Some(10), 1.1),
            "step: 10 s makes 100020 points of 1000200 s, expected at most 11000: a step of 100 s or more"
        );
        assert_eq!(
            fault((0, 3_600), Some(10), 1.1),
            "step: 10 s, expected a multiple of 300 s, which is what is kept of the time before the last 14 days"
        );
        let fine = Ask { step: Some(10), ..Ask::p99("s", "m", recent, recent + 3_600) };
        assert!(fine.check().is_ok());
    }
}
