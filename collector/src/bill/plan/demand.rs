//! How many GPUs were held at a time, as a histogram that ClickHouse makes.
//!
//! A slot's demand is the mean number of GPUs that were held in it. For the excess over any whole number n only the slots count whose
//! demand is at least n, so it is enough to know, for each whole number, how long the demand lay between it and the next,
//! and how much was held then: as many rows as there were GPUs, however long the period.

use std::collections::BTreeMap;
use std::fmt;

use clickhouse::Row;
use clickhouse::query::Query;
use contador_schemas::owner::OwnerKind;
use serde::Deserialize;

use super::sql::{self, Span};
use crate::bill::StoreError;
use crate::bill::commitments::Slot;
use crate::bill::decimal::ONE;
use crate::bill::directory::Directory;
use crate::bill::period::Period;
use crate::bill::rate::local_day;
use crate::bill::report::named;
use crate::store::Store;

/// How demand is told apart, beside the GPU model.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum By {
    /// All departments together
    #[default]
    Fleet,
    /// Each department by itself
    Department,
}

/// Whose demand it is.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Whose {
    /// Everybody's.
    Fleet,
    /// A department's; an empty one is that of nobody who told it.
    Department(String),
    /// That of processes whose owner is unknown.
    Unattributed,
}

/// Demand that is planned for together: the same GPUs can meet it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Group {
    /// Model of the whole GPU.
    pub gpu_model: String,
    /// Whose.
    pub whose: Whose,
}

/// Slots in which at least so many GPUs, and less than one more, were held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Level {
    /// Whole GPUs.
    pub gpus: u32,
    /// How long the slots are together, milliseconds.
    pub ms: i64,
    /// What was held in them, GPU-milliseconds times `10^12`.
    pub held: i128,
}

/// Demand of a group.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Demand {
    /// For each span, its levels from the lowest; slots in which nothing was held are in none.
    pub spans: Vec<Vec<Level>>,
    /// Whether some of it was generated, not measured.
    pub simulated: bool,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// Of whole minutes.
    pub period: &'a Period,
    /// Its spans; within one, neither prices nor departments of projects change.
    pub spans: &'a [Span],
    /// The time within which demand is averaged.
    pub slot: Slot,
    /// How it is told apart.
    pub by: By,
    /// Departments of projects.
    pub directory: Option<&'a Directory>,
}

/// Demand by group, and the unmetered GPU time in between, by model: GPU-milliseconds times `10^12`.
pub type Demands = (BTreeMap<Group, Demand>, BTreeMap<String, i128>);

#[derive(Deserialize, Row)]
struct LevelRow {
    gpu_model: String,
    of_kind: String,
    department: String,
    since: i64,
    gpus: u32,
    ms: i64,
    held: i128,
    simulated: bool,
}

/// Asks for the demand of a period.
///
/// # Errors
/// [`StoreError`].
pub async fn fetch(store: &Store, scope: &Scope<'_>) -> Result<Demands, StoreError> {
    let doing = || StoreError::doing("sum the demand");
    let whose = whose(store, scope).await?;
    let held = sql::held(scope.spans, scope.slot.ms(), "1");
    let length = sql::length(scope.spans, scope.slot.ms());
    // First by what owners say of themselves, which are few, and only then by the department that the directory finds.
    let sql = format!(
        "SELECT toString(model) AS gpu_model, toString(of_kind) AS of_kind, department, since, \
            toUInt32(intDiv(together, toInt128(long) * {ONE})) AS gpus, sum(long) AS ms, sum(together) AS held, \
            toBool(max(generated)) AS simulated \
         FROM ( \
            SELECT model, of_kind, {} AS department, since, slot, {length} AS long, sum(some) AS together, max(generated_some) AS generated \
            FROM ( \
                SELECT gpu_model AS model, {}, since, slot, sum(part) AS some, max(made_up) AS generated_some \
                FROM ({held}) AS held {} GROUP BY model, of_kind, of_owner, of_project, since, slot \
            ) GROUP BY model, of_kind, department, since, slot \
         ) GROUP BY gpu_model, of_kind, department, since, gpus ORDER BY gpu_model, of_kind, department, since, gpus \
         SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 0",
        whose.department, whose.columns, whose.join
    );
    let rows: Vec<LevelRow> = whose.bound(store.client.query(&sql)).fetch_all().await.map_err(doing())?;
    let mut demands: Demands = Default::default();
    for row in rows {
        let whose = match (OwnerKind::parse(&row.of_kind), scope.by) {
            (Some(OwnerKind::Unmetered), _) => {
                *demands.1.entry(row.gpu_model).or_default() += row.held;
                continue;
            }
            (_, By::Fleet) => Whose::Fleet,
            (Some(OwnerKind::Unattributed), _) => Whose::Unattributed,
            _ => Whose::Department(row.department),
        };
        let Some(span) = scope.spans.iter().position(|span| span.0 == row.since) else { continue };
        let demand = demands.0.entry(Group { gpu_model: row.gpu_model, whose }).or_default();
        demand.spans.resize(scope.spans.len(), Vec::new());
        demand.simulated |= row.simulated;
        demand.spans[span].push(Level { gpus: row.gpus, ms: row.ms, held: row.held });
    }
    Ok(demands)
}

/// How owners become groups.
pub(super) struct Grouped {
    /// Columns `of_kind`, `of_owner` (the department that owners say) and `of_project` (where they say none).
    pub columns: &'static str,
    /// What these come from, beside `held`.
    pub join: &'static str,
    /// The department, of `of_owner`, `of_project` and `since`.
    pub department: &'static str,
    keys: Vec<String>,
    departments: Vec<String>,
}

impl Grouped {
    /// The query with the departments of projects.
    pub fn bound(&self, query: Query) -> Query {
        if self.keys.is_empty() {
            return query;
        }
        query.param("keys", &self.keys).param("departments", &self.departments)
    }
}

/// Everybody together; what nobody saw stays apart.
const FLEET: Grouped = Grouped {
    columns: "transform(kind, ['unmetered'], ['unmetered'], 'workload') AS of_kind, '' AS of_owner, '' AS of_project",
    join: "",
    department: "of_owner",
    keys: Vec::new(),
    departments: Vec::new(),
};

/// By what owners say.
const DEPARTMENTS: Grouped = Grouped {
    columns: "kind AS of_kind, named AS of_owner, project AS of_project",
    join: "LEFT JOIN ( \
            SELECT id, department AS named, if(department = '', toString(project), '') AS project FROM owners FINAL \
        ) AS names ON held.owner = names.id",
    department: "toString(of_owner)",
    keys: Vec::new(),
    departments: Vec::new(),
};

/// By what owners say, and else by the directory.
const DIRECTORY: &str = "if(of_owner != '', toString(of_owner), \
    transform(concat(toString(since), ':', of_project), {keys:Array(String)}, {departments:Array(String)}, ''))";

/// How owners become groups, at the instants at which spans begin.
pub(super) async fn whose(store: &Store, scope: &Scope<'_>) -> Result<Grouped, StoreError> {
    let (By::Department, Some(directory)) = (scope.by, scope.directory) else {
        return Ok(if scope.by == By::Fleet { FLEET } else { DEPARTMENTS });
    };
    let sql = "SELECT DISTINCT toString(project) FROM owners WHERE department = '' AND project != ''";
    let projects: Vec<String> =
        store.client.query(sql).fetch_all().await.map_err(StoreError::doing("read the owners"))?;
    let mut grouped = DEPARTMENTS;
    for (since, _) in scope.spans {
        let Some(day) = local_day(*since, &scope.period.zone) else { continue };
        for project in &projects {
            if let Some(entry) = directory.at(project, day) {
                grouped.keys.push(format!("{since}:{project}"));
                grouped.departments.push(entry.department.to_string());
            }
        }
    }
    if !grouped.keys.is_empty() {
        grouped.department = DIRECTORY;
    }
    Ok(grouped)
}

impl Demand {
    /// What was held in all, GPU-milliseconds times `10^12`.
    pub fn held(&self) -> i128 {
        self.spans.iter().flatten().map(|level| level.held).sum()
    }

    /// The least whole number of GPUs that demand was never above.
    pub fn most(&self) -> u32 {
        let above = |level: &Level| level.held > i128::from(level.gpus) * i128::from(level.ms) * ONE;
        self.spans.iter().flatten().map(|level| level.gpus + u32::from(above(level))).max().unwrap_or_default()
    }

    /// How long at least so many GPUs were held, milliseconds.
    pub fn reached(&self, gpus: u32) -> i64 {
        self.spans.iter().flatten().filter(|level| level.gpus >= gpus).map(|level| level.ms).sum()
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.pad("whole fleet"),
            Self::Department(department) => f.pad(&named(department)),
            Self::Unattributed => f.pad("(unattributed)"),
        }
    }
}
