//! Planning and dispatching open spans with the problem's sizes as fields.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use lapidary_core::testing::{Case, Values};
use lapidary_core::{Cpu, Gemm, Problem};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Remembers every span as `name field=value …`.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        let mut spans = self.0.lock().expect("no test thread panics here");
        spans.push(line.0);
        Id::from_u64(spans.len() as u64)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_product_opens_a_plan_and_a_dispatch_span() {
    let spans = Spans::default();
    let case = Case::new(Problem::new(3, 4, 5), Values::Uniform, 1);
    tracing::subscriber::with_default(spans.clone(), || {
        Gemm::<Cpu>::run(&Cpu::new(), &case.problem, &case.operands()).expect("a valid case");
    });
    let seen = spans.0.lock().expect("no test thread panicked").clone();
    let own: Vec<_> = seen
        .iter()
        .filter(|line| line.starts_with("plan") || line.starts_with("dispatch"))
        .collect();
    assert_eq!(
        own,
        [
            "plan m=3 n=4 k=5 kernel=auto device=\"cpu\"",
            "dispatch m=3 n=4 k=5 kernel=cpu_in_place_f32 device=\"cpu\""
        ]
    );
}
