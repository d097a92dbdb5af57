//! Inference servers that the agent scrapes: pages of vLLM's size, with its families, and 20 more requests on each.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;

/// Requests between two pages of a server.
const REQUESTS: u64 = 20;

/// Histograms of vLLM, each with 21 bounds.
const HISTOGRAMS: [&str; 8] = [
    "e2e_request_latency_seconds",
    "time_to_first_token_seconds",
    "request_time_per_output_token_seconds",
    "inter_token_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
];

const BOUNDS: u64 = 21;

/// Other lines of such a page: of the process, of the interpreter, of the cache.
const OTHERS: usize = 60;

/// Starts `count` of them, on a thread of their own; the agent's configuration.
pub fn start(count: usize) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let pages: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let router = Router::new().route("/{server}/metrics", get(page)).with_state(pages);
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
        });
    });
    (0..count).map(|server| target(address, server)).collect()
}

fn target(address: SocketAddr, server: usize) -> String {
    format!("[[scrape.target]]\nurl = \"http://{address}/{server}/metrics\"\nservice = \"chat-{server}\"\n")
}

async fn page(State(pages): State<Arc<Vec<AtomicU64>>>, Path(server): Path<usize>) -> String {
    let page = pages.get(server).map_or(0, |pages| pages.fetch_add(1, Ordering::Relaxed));
    text(page).unwrap()
}

fn text(page: u64) -> Result<String, std::fmt::Error> {
    let labels = "engine=\"0\",model_name=\"meta-llama/Llama-3.1-70B-Instruct\"";
    let mut text = String::new();
    for name in HISTOGRAMS {
        writeln!(text, "# HELP vllm:{name} Histogram of {name}.\n# TYPE vllm:{name} histogram")?;
        let mut le = 0.01;
        for bound in 0..BOUNDS {
            // Spread evenly over the upper half of the buckets.
            let upto = page * REQUESTS * bound.saturating_sub(BOUNDS / 2) / (BOUNDS - BOUNDS / 2);
            writeln!(text, "vllm:{name}_bucket{{{labels},le=\"{le}\"}} {upto}.0")?;
            le *= 1.6;
        }
        let all = page * REQUESTS;
        writeln!(text, "vllm:{name}_bucket{{{labels},le=\"+Inf\"}} {all}.0")?;
        writeln!(text, "vllm:{name}_count{{{labels}}} {all}.0\nvllm:{name}_sum{{{labels}}} {all}.0")?;
    }
    for (name, each) in [("prompt_tokens", 900), ("generation_tokens", 300)] {
        writeln!(text, "# TYPE vllm:{name}_total counter\nvllm:{name}_total{{{labels}}} {}.0", page * REQUESTS * each)?;
    }
    writeln!(text, "# TYPE vllm:request_success_total counter")?;
    for (reason, share) in [("stop", REQUESTS - 1), ("length", 1), ("abort", 0)] {
        writeln!(text, "vllm:request_success_total{{{labels},finished_reason=\"{reason}\"}} {}.0", page * share)?;
    }
    for other in 0..OTHERS {
        writeln!(text, "# TYPE python_thing_{other} gauge\npython_thing_{other}{{generation=\"2\"}} {page}.0")?;
    }
    writeln!(text, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79e+09")?;
    Ok(text)
}
