//! GPUs of each hour of the week, as a grid whose darker cells need more.

use super::{drawing, text};
use crate::bill::plan::pool::Pool;
use crate::bill::plan::show::{capacity::DAYS, number};

const CELL: (f64, f64) = (34.0, 30.0);
const LEFT: f64 = 64.0;
const TOP: f64 = 96.0;

impl Pool {
    /// The needs as a drawing.
    pub fn to_svg(&self) -> String {
        let needed = &self.needed;
        let title = format!(
            "{}: {} GPUs at the peak of {} requests/s",
            self.asked.service.name,
            needed.gpus,
            number(&needed.peak)
        );
        let mut out = text(24.0, 30.0, "head", "start", &title);
        let more = match &self.size {
            Some(size) => format!("{} held; {} in the quietest hour", number(&size.last), needed.floor()),
            None => format!("{} in the quietest hour", needed.floor()),
        };
        out += &text(
            24.0,
            52.0,
            "soft",
            "start",
            &format!("GPUs needed by hour of the week ({}); {more}", self.asked.zone.iana_name().unwrap_or("UTC")),
        );
        for hour in (0..24_u8).step_by(3) {
            out += &text(LEFT + (f64::from(hour) + 0.5) * CELL.0, TOP - 10.0, "soft", "middle", &format!("{hour:02}"));
        }
        for (day, (name, hours)) in (0_u8..).zip(DAYS.iter().zip(needed.by_hour.chunks(24))) {
            let y = TOP + f64::from(day) * CELL.1;
            out += &text(LEFT - 10.0, y + 20.0, "soft", "end", name);
            for (hour, gpus) in (0_u8..).zip(hours) {
                out += &cell(LEFT + f64::from(hour) * CELL.0, y, *gpus, needed.gpus);
            }
        }
        drawing(LEFT + 24.0 * CELL.0 + 24.0, TOP + 7.0 * CELL.1 + 24.0, &title, &out)
    }
}

fn cell(x: f64, y: f64, gpus: Option<u64>, most: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let shade = gpus.map_or(0.0, |gpus| gpus as f64 / most.max(1) as f64).clamp(0.0, 1.0);
    let (width, height) = (CELL.0 - 2.0, CELL.1 - 2.0);
    let shown = gpus.map_or_else(|| "–".to_owned(), |gpus| gpus.to_string());
    format!(
        "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height}\" rx=\"3\" fill-opacity=\"{:.2}\"/>",
        0.06 + shade * 0.5
    ) + &text(x + width / 2.0, y + 19.0, "", "middle", &shown)
}
