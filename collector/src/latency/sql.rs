//! Parts of SQL: which rows count, and from which table each span of time is read. Values are bound by name, never written.

use clickhouse::query::Query;

use super::ask::{Ask, Label};
use super::levels::{Cover, LEVELS, Span};

/// Settings of every query of latencies: long lists of spans, and a bound on what one may take.
const SETTINGS: [(&str, &str); 5] = [
    ("max_query_size", "16777216"),
    ("max_ast_elements", "1000000"),
    ("max_expanded_ast_elements", "1000000"),
    ("max_execution_time", "60"),
    ("do_not_merge_across_partitions_select_final", "1"),
];

/// A condition on rows, with the values that it is bound to.
#[derive(Clone, Debug)]
pub struct Condition {
    sql: String,
    values: Vec<(String, String)>,
}

/// Columns that the tables of roll-ups have in place of `latency`'s.
struct Columns {
    summed: &'static str,
    sum_us: &'static str,
}

const ROWS: Columns = Columns {
    summed: "if(censored = 0 AND isNotNull(sum_us), count, 0)",
    sum_us: "if(censored = 0, ifNull(sum_us, 0), 0)",
};

const ROLLED_UP: Columns = Columns { summed: "summed", sum_us: "sum_us" };

impl Condition {
    /// What `ask` selects, its time left out.
    pub fn of(ask: &Ask) -> Self {
        let mut sql = String::from("1");
        let mut values = Vec::new();
        for (index, (label, value)) in ask.equal.iter().enumerate() {
            let name = format!("v{index}");
            let left = expression(label, &format!("a{index}"));
            sql.push_str(&format!(" AND {left} = {{{name}:String}}"));
            values.push((name, value.clone()));
            if let Label::Attribute(attribute) = label {
                values.push((format!("a{index}"), attribute.clone()));
            }
        }
        Self { sql, values }
    }

    /// Its SQL.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The query with its values.
    pub fn bound(&self, query: Query) -> Query {
        let query = self.values.iter().fold(query, |query, (name, value)| query.param(name, value));
        settings(query)
    }
}

/// The query with the settings of all queries of latencies.
pub fn settings(query: Query) -> Query {
    SETTINGS.iter().fold(query, |query, (name, value)| query.with_setting(*name, *value))
}

/// A label as a string, an attribute's name being the parameter `parameter`.
fn expression(label: &Label, parameter: &str) -> String {
    match label {
        Label::Attribute(_) => format!("attributes[{{{parameter}:String}}]"),
        Label::Service | Label::Metric => label.name().to_owned(),
        column => format!("toString({})", column.name()),
    }
}

/// The cells of `ask`, added up by label, step and edges, in the order of labels and steps. Columns: `labels`, `step`, `lo`, `hi`, `total`.
pub fn cells(ask: &Ask, condition: &Condition, cover: &Cover) -> String {
    let keys = keys(ask);
    let order = if keys.is_empty() { String::new() } else { format!(" ORDER BY {}", keys.trim_end_matches(", ")) };
    let tables = tables(cover, |table, _, spans| {
        format!("SELECT {}lo, hi, n FROM {table} FINAL PREWHERE {} AND ({spans})", declared(ask), condition.sql())
    });
    format!(
        "SELECT {}, l AS lo, h AS hi, sum(c) AS total FROM ({tables}) ARRAY JOIN lo AS l, hi AS h, n AS c \
         GROUP BY {keys}l, h{order}",
        told(ask)
    )
}

/// What is beside the cells, by label and step. Columns: `labels`, `step`, `counted`, `aborted`, `made_up`, `with_sum`,
/// `sum`.
pub fn beside(ask: &Ask, condition: &Condition, cover: &Cover) -> String {
    let keys = keys(ask);
    let tables = tables(cover, |table, columns, spans| {
        format!(
            "SELECT {}count, censored, (simulated AND count > 0) AS made, {} AS known, {} AS summed_us \
             FROM {table} FINAL PREWHERE {} AND ({spans})",
            declared(ask),
            columns.summed,
            columns.sum_us,
            condition.sql()
        )
    });
    // Each row is an answer or more: of too many, one more than are allowed is enough to say so.
    let most = super::ask::MOST_ANSWERS + 1;
    let grouped = match keys.trim_end_matches(", ") {
        "" => String::new(),
        keys => format!(" GROUP BY {keys} LIMIT {most}"),
    };
    format!(
        "SELECT {}, sum(toUInt128(count)) AS counted, sum(toUInt128(censored)) AS aborted, max(made) AS made_up, \
         sum(toUInt128(known)) AS with_sum, sum(summed_us) AS sum FROM ({tables}){grouped}",
        told(ask)
    )
}

/// The query with the names of the attributes that tell answers apart, and with the values of `condition`.
pub fn bound(ask: &Ask, condition: &Condition, query: Query) -> Query {
    let attributes = ask.by.iter().enumerate().filter_map(|(index, label)| match label {
        Label::Attribute(name) => Some((format!("b{index}"), name)),
        _ => None,
    });
    condition.bound(attributes.fold(query, |query, (name, value)| query.param(&name, value)))
}

/// Labels and step of a row, each followed by a comma; nothing where nothing is told apart.
fn declared(ask: &Ask) -> String {
    let mut sql = String::new();
    if !ask.by.is_empty() {
        let labels: Vec<String> =
            ask.by.iter().enumerate().map(|(index, label)| expression(label, &format!("b{index}"))).collect();
        let labels: Vec<String> = labels.iter().map(|label| format!("toString({label})")).collect();
        sql.push_str(&format!("[{}] AS g, ", labels.join(", ")));
    }
    if let Some(step) = ask.step {
        sql.push_str(&format!("toUInt32(intDiv(toUInt32(window), {step}) * {step}) AS t, "));
    }
    sql
}

fn keys(ask: &Ask) -> String {
    let labels = if ask.by.is_empty() { "" } else { "g, " };
    let step = if ask.step.is_some() { "t, " } else { "" };
    format!("{labels}{step}")
}

fn told(ask: &Ask) -> String {
    let labels = if ask.by.is_empty() { "CAST([], 'Array(String)')" } else { "g" };
    let step = if ask.step.is_some() { "t" } else { "toUInt32(0)" };
    format!("{labels} AS labels, {step} AS step")
}

/// One `SELECT` for each table that has a span, put together.
fn tables(cover: &Cover, select: impl Fn(&str, &Columns, &str) -> String) -> String {
    let levels = LEVELS.iter().zip(&cover.levels).map(|(level, spans)| (level.table, ROLLED_UP, spans));
    let all = std::iter::once(("latency", ROWS, &cover.rows)).chain(levels);
    let selects: Vec<String> = all
        .filter(|(_, _, spans)| !spans.is_empty())
        .map(|(table, columns, spans)| select(table, &columns, &within(spans)))
        .collect();
    if selects.is_empty() { select("latency", &ROWS, "0") } else { selects.join(" UNION ALL ") }
}

/// A condition on the window.
fn within(spans: &[Span]) -> String {
    let spans: Vec<String> = spans
        .iter()
        .map(|(from, to)| format!("(window >= toDateTime({from}, 'UTC') AND window < toDateTime({to}, 'UTC'))"))
        .collect();
    spans.join(" OR ")
}
