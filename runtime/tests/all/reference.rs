//! What the reference evaluator answers, as programs of several devices give it.

use systole_compiler::eval::{EvalOptions, Host, NoHost, Tensor, Value, evaluate_devices};
use systole_runtime::source::{self, Source};
use systole_runtime::{Array, Client};

/// The results of an HLO program on every device, one replica a device, with the inputs of each; `what` it is, for messages.
pub fn evaluated(client: &Client, what: &str, text: &str, inputs: &[Vec<Array>]) -> Vec<Vec<Tensor>> {
    let source = source::read_one("m", text.as_bytes(), client.chip(), false, &mut Vec::new());
    let Source::Module { module, .. } = source.unwrap_or_else(|e| panic!("{what}: {e}")) else {
        panic!("{what}: not a module")
    };
    let tensor = |a: &Array| {
        let dims: Vec<usize> = a.dims.iter().map(|&n| n as usize).collect();
        Value::Array(Tensor::new(a.dtype, &dims, a.bytes.clone()))
    };
    let values: Vec<Vec<Value>> = inputs.iter().map(|i| i.iter().map(tensor).collect()).collect();
    let mut hosts: Vec<Box<dyn Host + Send>> = inputs.iter().map(|_| Box::new(NoHost) as _).collect();
    let results = evaluate_devices(&module, (inputs.len(), 1), &values, &EvalOptions::default(), &mut hosts);
    results.unwrap_or_else(|e| panic!("{what}: {e}")).into_iter().map(Value::into_leaves).collect()
}
