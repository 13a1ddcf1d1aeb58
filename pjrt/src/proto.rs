//! The messages of XLA that the interface hands over: the fields that matter here.

use prost::Message;

/// `xla.CompileOptionsProto`.
#[derive(Clone, PartialEq, Message)]
pub struct CompileOptions {
    #[prost(message, optional, tag = "3")]
    pub build: Option<BuildOptions>,
    /// The program may run on any device.
    #[prost(bool, tag = "4")]
    pub portable: bool,
    /// `compiler_options` of `jit`.
    #[prost(btree_map = "string, message", tag = "7")]
    pub overrides: std::collections::BTreeMap<String, Override>,
}

/// `xla.OptionOverrideProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Override {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
    pub value: Option<Value>,
}

/// What an option is given.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Float(f64),
}

impl Override {
    /// The value that a text says.
    pub fn of(text: &str) -> Override {
        Override { value: Some(Value::Text(text.to_string())) }
    }

    /// The value as a person would write it.
    pub fn text(&self) -> String {
        match &self.value {
            None => String::new(),
            Some(Value::Text(t)) => t.clone(),
            Some(Value::Bool(b)) => b.to_string(),
            Some(Value::Int(n)) => n.to_string(),
            Some(Value::Float(x)) => x.to_string(),
        }
    }
}

/// `xla.ExecutableBuildOptionsProto`.
#[derive(Clone, PartialEq, Message)]
pub struct BuildOptions {
    #[prost(int64, tag = "1")]
    pub device_ordinal: i64,
    #[prost(int64, tag = "4")]
    pub num_replicas: i64,
    #[prost(int64, tag = "5")]
    pub num_partitions: i64,
    #[prost(message, optional, tag = "9")]
    pub assignment: Option<DeviceAssignment>,
    /// Of each result (one: of all) whether its sharding is the compiler's to choose.
    #[prost(bool, repeated, tag = "12")]
    pub free_results: Vec<bool>,
}

/// `xla.DeviceAssignmentProto`.
#[derive(Clone, PartialEq, Message)]
pub struct DeviceAssignment {
    #[prost(int32, tag = "1")]
    pub replicas: i32,
    #[prost(int32, tag = "2")]
    pub computations: i32,
    /// By partition.
    #[prost(message, repeated, tag = "3")]
    pub devices: Vec<ComputationDevices>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ComputationDevices {
    /// Device ids by replica.
    #[prost(int64, repeated, tag = "1")]
    pub ids: Vec<i64>,
}

impl DeviceAssignment {
    /// The assignment of device ids in the order of replicas, each with its partitions.
    pub fn new(replicas: usize, partitions: usize, ids: &[usize]) -> DeviceAssignment {
        let of = |p: usize| ComputationDevices {
            ids: (0..replicas).map(|r| ids.get(r * partitions + p).map_or(0, |d| *d as i64)).collect(),
        };
        DeviceAssignment {
            replicas: replicas as i32,
            computations: partitions as i32,
            devices: (0..partitions).map(of).collect(),
        }
    }

    /// Device ids in the order of replicas, each with its partitions.
    pub fn ids(&self) -> Vec<usize> {
        let replicas = self.devices.iter().map(|d| d.ids.len()).min().unwrap_or(0);
        let id = |r: usize| move |d: &ComputationDevices| usize::try_from(d.ids[r]).unwrap_or(0);
        (0..replicas).flat_map(|r| self.devices.iter().map(id(r))).collect()
    }
}
