//! The parts of Perfetto's and XProf's messages that are written, by hand: field numbers are those of the public formats.

/// Perfetto's trace.
pub mod perfetto {
    use prost::{Message, Oneof};

    #[derive(Clone, PartialEq, Message)]
    pub struct Trace {
        #[prost(message, repeated, tag = "1")]
        pub packet: Vec<TracePacket>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        pub timestamp: Option<u64>,
        #[prost(uint32, optional, tag = "10")]
        pub trusted_packet_sequence_id: Option<u32>,
        #[prost(message, optional, tag = "11")]
        pub track_event: Option<TrackEvent>,
        #[prost(message, optional, tag = "12")]
        pub interned_data: Option<InternedData>,
        #[prost(uint32, optional, tag = "13")]
        pub sequence_flags: Option<u32>,
        #[prost(message, optional, tag = "60")]
        pub track_descriptor: Option<TrackDescriptor>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct TrackDescriptor {
        #[prost(uint64, optional, tag = "1")]
        pub uuid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub name: Option<String>,
        #[prost(message, optional, tag = "3")]
        pub process: Option<ProcessDescriptor>,
        #[prost(uint64, optional, tag = "5")]
        pub parent_uuid: Option<u64>,
        #[prost(message, optional, tag = "8")]
        pub counter: Option<CounterDescriptor>,
        #[prost(int32, optional, tag = "11")]
        pub child_ordering: Option<i32>,
        #[prost(int32, optional, tag = "12")]
        pub sibling_order_rank: Option<i32>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct ProcessDescriptor {
        #[prost(int32, optional, tag = "1")]
        pub pid: Option<i32>,
        #[prost(string, optional, tag = "6")]
        pub process_name: Option<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct CounterDescriptor {
        #[prost(string, optional, tag = "6")]
        pub unit_name: Option<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct InternedData {
        #[prost(message, repeated, tag = "1")]
        pub event_categories: Vec<Interned>,
        #[prost(message, repeated, tag = "2")]
        pub event_names: Vec<Interned>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Interned {
        #[prost(uint64, optional, tag = "1")]
        pub iid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub name: Option<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct TrackEvent {
        #[prost(uint64, repeated, packed = "false", tag = "3")]
        pub category_iids: Vec<u64>,
        #[prost(message, repeated, tag = "4")]
        pub debug_annotations: Vec<DebugAnnotation>,
        /// 1 begin, 2 end, 4 counter.
        #[prost(int32, optional, tag = "9")]
        pub r#type: Option<i32>,
        #[prost(uint64, optional, tag = "10")]
        pub name_iid: Option<u64>,
        #[prost(uint64, optional, tag = "11")]
        pub track_uuid: Option<u64>,
        #[prost(double, optional, tag = "44")]
        pub double_counter_value: Option<f64>,
        #[prost(fixed64, repeated, packed = "false", tag = "47")]
        pub flow_ids: Vec<u64>,
        #[prost(fixed64, repeated, packed = "false", tag = "48")]
        pub terminating_flow_ids: Vec<u64>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct DebugAnnotation {
        #[prost(string, optional, tag = "10")]
        pub name: Option<String>,
        #[prost(oneof = "AnnotationValue", tags = "3, 6")]
        pub value: Option<AnnotationValue>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub enum AnnotationValue {
        #[prost(uint64, tag = "3")]
        Uint(u64),
        #[prost(string, tag = "6")]
        Text(String),
    }
}

/// XProf's planes.
pub mod xplane {
    use prost::{Message, Oneof};
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, Message)]
    pub struct XSpace {
        #[prost(message, repeated, tag = "1")]
        pub planes: Vec<XPlane>,
        #[prost(string, repeated, tag = "4")]
        pub hostnames: Vec<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct XPlane {
        #[prost(int64, tag = "1")]
        pub id: i64,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(message, repeated, tag = "3")]
        pub lines: Vec<XLine>,
        #[prost(btree_map = "int64, message", tag = "4")]
        pub event_metadata: BTreeMap<i64, XEventMetadata>,
        #[prost(btree_map = "int64, message", tag = "5")]
        pub stat_metadata: BTreeMap<i64, XStatMetadata>,
        #[prost(message, repeated, tag = "6")]
        pub stats: Vec<XStat>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct XLine {
        #[prost(int64, tag = "1")]
        pub id: i64,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(int64, tag = "3")]
        pub timestamp_ns: i64,
        #[prost(message, repeated, tag = "4")]
        pub events: Vec<XEvent>,
        #[prost(int64, tag = "9")]
        pub duration_ps: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct XEvent {
        #[prost(int64, tag = "1")]
        pub metadata_id: i64,
        #[prost(int64, tag = "2")]
        pub offset_ps: i64,
        #[prost(int64, tag = "3")]
        pub duration_ps: i64,
        #[prost(message, repeated, tag = "4")]
        pub stats: Vec<XStat>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct XStat {
        #[prost(int64, tag = "1")]
        pub metadata_id: i64,
        #[prost(oneof = "XValue", tags = "2, 3, 4, 5, 6, 7")]
        pub value: Option<XValue>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub enum XValue {
        #[prost(double, tag = "2")]
        Double(f64),
        #[prost(uint64, tag = "3")]
        Uint64(u64),
        #[prost(int64, tag = "4")]
        Int64(i64),
        #[prost(string, tag = "5")]
        Str(String),
        #[prost(bytes = "vec", tag = "6")]
        Bytes(Vec<u8>),
        #[prost(uint64, tag = "7")]
        Ref(u64),
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct XEventMetadata {
        #[prost(int64, tag = "1")]
        pub id: i64,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(bytes = "vec", tag = "3")]
        pub metadata: Vec<u8>,
        #[prost(string, tag = "4")]
        pub display_name: String,
        #[prost(message, repeated, tag = "5")]
        pub stats: Vec<XStat>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct XStatMetadata {
        #[prost(int64, tag = "1")]
        pub id: i64,
        #[prost(string, tag = "2")]
        pub name: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct MemoryAccess {
        /// 1 read, 2 write.
        #[prost(int32, tag = "1")]
        pub operation_type: i32,
        /// 1 HBM.
        #[prost(uint64, tag = "2")]
        pub memory_space: u64,
        #[prost(uint64, tag = "3")]
        pub bytes_accessed: u64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct MemoryAccessBreakdown {
        #[prost(message, repeated, tag = "1")]
        pub memory_accessed: Vec<MemoryAccess>,
    }
}

pub mod hlo;
