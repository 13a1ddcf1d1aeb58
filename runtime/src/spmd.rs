//! Programs of whole arrays on several partitions: partitioning, cutting inputs, joining outputs.

use crate::report::pod::WholeReport;
use crate::source::Source;
use crate::{Array, RuntimeError};
use systole_compiler::diag::{self, Diagnostic};
use systole_compiler::graph::Module;
pub use systole_compiler::spmd::Unsaid;
use systole_compiler::spmd::{self, Boundary, Note, Partitioned};

/// How a program's arrays are divided, and what its partitioner says.
#[derive(Clone, Debug)]
pub struct Parts {
    pub boundary: Boundary,
    /// What could not be divided.
    pub notes: Vec<Note>,
    /// Whether outputs are known to be joined; those of programs that others partitioned are not.
    pub joins: bool,
}

/// Whether a program is annotated with shardings for several partitions.
#[must_use]
pub fn is_to_be_partitioned(module: &Module) -> bool {
    spmd::is_annotated(module) && spmd::partitions(module) > 1
}

/// A program for `partitions` partitions: partitioned, if shardings annotate it. The parts of its arrays, where they are known.
///
/// # Errors
/// Annotations for another number of partitions, or that the partitioner refuses.
pub fn partitioned(
    source: Source,
    name: &str,
    partitions: u32,
    unsaid: Unsaid,
) -> Result<(Source, Option<Parts>), RuntimeError> {
    let Source::Module { module, text } = source else { return Ok((source, None)) };
    if !is_to_be_partitioned(&module) {
        let boundary = if partitions > 1 { spmd::boundary(&module, u64::from(partitions)) } else { None };
        let parts = boundary.map(|boundary| Parts { boundary, notes: Vec::new(), joins: false });
        return Ok((Source::Module { module, text }, parts));
    }
    let Partitioned { module, boundary, notes, .. } = partition(&module, name, &text, (partitions, unsaid))?;
    Ok((Source::Module { module: Box::new(module), text }, Some(Parts { boundary, notes, joins: true })))
}

/// Partitions an annotated module.
///
/// # Errors
/// As [`partitioned`].
pub fn partition(
    module: &Module,
    name: &str,
    text: &str,
    (partitions, unsaid): (u32, Unsaid),
) -> Result<Partitioned, RuntimeError> {
    let wanted = spmd::partitions(module);
    if wanted != u64::from(partitions) {
        return Err(RuntimeError::Request(format!(
            "{name}: the program is annotated with shardings for {wanted} partitions, not {partitions} (--partitions)"
        )));
    }
    spmd::partition(module, wanted, unsaid).map_err(|e| match e.span() {
        Some(span) => {
            let d = Diagnostic::error(span, e.to_string());
            RuntimeError::Compile(diag::render(&[d], name, text, false))
        }
        None => RuntimeError::Compile(format!("{name}: {e}")),
    })
}

impl Parts {
    /// What could not be divided, for reports: the largest first.
    pub fn kept_whole(&self) -> Vec<WholeReport> {
        let one = |n: &Note| WholeReport { name: n.name.clone(), why: n.message.clone(), bytes: n.bytes };
        let mut all: Vec<WholeReport> = self.notes.iter().map(one).collect();
        all.sort_by_key(|n| std::cmp::Reverse(n.bytes));
        all
    }

    /// Every partition's part of a whole input.
    ///
    /// # Errors
    /// An array of other sizes than the parameter's.
    pub fn cut(&self, input: usize, whole: &Array) -> Result<Vec<Array>, RuntimeError> {
        let Some(edge) = self.boundary.params.get(input) else {
            return Err(RuntimeError::Request(format!("arg{input} is no parameter of the program")));
        };
        if whole.dims != edge.dims {
            let message = format!("arg{input} must have sizes {:?} in all, {} is given", edge.dims, whole.shape());
            return Err(RuntimeError::Request(message));
        }
        let size = whole.dtype.host_bytes();
        let one = |p: u64| {
            let part = self.boundary.part(edge, p);
            if !self.boundary.has_value(edge, p) {
                let elements = part.local.iter().product::<u64>() as usize;
                return Array::new(whole.dtype, &part.local, vec![0; elements * size]);
            }
            Array::new(whole.dtype, &part.local, part.cut(&edge.dims, &whole.bytes, size))
        };
        Ok((0..self.boundary.mesh.devices()).map(one).collect())
    }

    /// A whole result from every partition's part of it, which `of` gives.
    ///
    /// # Errors
    /// Those of `of`; a result that the program has not.
    pub fn join(
        &self,
        result: usize,
        of: &dyn Fn(usize) -> Result<Array, RuntimeError>,
    ) -> Result<Array, RuntimeError> {
        let missing = || RuntimeError::Request(format!("out{result} is no result of the program"));
        let edge = self.boundary.results.get(result).ok_or_else(missing)?;
        let elements = edge.dims.iter().product::<u64>() as usize;
        let mut whole: Option<Array> = None;
        if !edge.unreduced.list().is_empty() {
            let message =
                format!("out{result} is a sum that is still to be taken (`unreduced`): every device has a term");
            return Err(RuntimeError::Request(message));
        }
        for p in 0..self.boundary.mesh.devices() {
            let own = of(p as usize)?;
            let size = own.dtype.host_bytes();
            let into = whole.get_or_insert_with(|| Array::new(own.dtype, &edge.dims, vec![0; elements * size]));
            self.boundary.part(edge, p).join(&edge.dims, &mut into.bytes, &own.bytes, size);
        }
        whole.ok_or_else(missing)
    }
}
