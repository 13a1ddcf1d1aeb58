//! The parts of Perfetto's and XProf's messages that are written, by hand: field numbers are those of the public formats.

/// Messages: of each field its name and type, how it is written, and its number (of one of several: theirs).
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = [$($how:tt)+] $($tag:literal)? $(($($tags:literal),+))?,)+
    })+) => { $(
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name {
            $($(#[$doc])* #[prost($($how)+ $(, tag($tag))? $(, tags($($tags),+))?)] pub $field: $type,)+
        }
    )+ };
}

/// Perfetto's trace.
pub mod perfetto {
    use prost::Oneof;

    messages! {
        Trace {
            packet: Vec<TracePacket> = [message, repeated] 1,
        }
        TracePacket {
            timestamp: Option<u64> = [uint64, optional] 8,
            trusted_packet_sequence_id: Option<u32> = [uint32, optional] 10,
            track_event: Option<TrackEvent> = [message, optional] 11,
            interned_data: Option<InternedData> = [message, optional] 12,
            sequence_flags: Option<u32> = [uint32, optional] 13,
            track_descriptor: Option<TrackDescriptor> = [message, optional] 60,
        }
        TrackDescriptor {
            uuid: Option<u64> = [uint64, optional] 1,
            name: Option<String> = [string, optional] 2,
            process: Option<ProcessDescriptor> = [message, optional] 3,
            parent_uuid: Option<u64> = [uint64, optional] 5,
            counter: Option<CounterDescriptor> = [message, optional] 8,
            child_ordering: Option<i32> = [int32, optional] 11,
            sibling_order_rank: Option<i32> = [int32, optional] 12,
        }
        ProcessDescriptor {
            pid: Option<i32> = [int32, optional] 1,
            process_name: Option<String> = [string, optional] 6,
        }
        CounterDescriptor {
            unit_name: Option<String> = [string, optional] 6,
        }
        InternedData {
            event_categories: Vec<Interned> = [message, repeated] 1,
            event_names: Vec<Interned> = [message, repeated] 2,
        }
        Interned {
            iid: Option<u64> = [uint64, optional] 1,
            name: Option<String> = [string, optional] 2,
        }
        TrackEvent {
            category_iids: Vec<u64> = [uint64, repeated, packed = "false"] 3,
            debug_annotations: Vec<DebugAnnotation> = [message, repeated] 4,
            /// 1 begin, 2 end, 4 counter.
            r#type: Option<i32> = [int32, optional] 9,
            name_iid: Option<u64> = [uint64, optional] 10,
            track_uuid: Option<u64> = [uint64, optional] 11,
            double_counter_value: Option<f64> = [double, optional] 44,
            flow_ids: Vec<u64> = [fixed64, repeated, packed = "false"] 47,
            terminating_flow_ids: Vec<u64> = [fixed64, repeated, packed = "false"] 48,
        }
        DebugAnnotation {
            name: Option<String> = [string, optional] 10,
            value: Option<AnnotationValue> = [oneof = "AnnotationValue"] (3, 6),
        }
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
    use prost::Oneof;
    use std::collections::BTreeMap;

    messages! {
        XSpace {
            planes: Vec<XPlane> = [message, repeated] 1,
            hostnames: Vec<String> = [string, repeated] 4,
        }
        XPlane {
            id: i64 = [int64] 1,
            name: String = [string] 2,
            lines: Vec<XLine> = [message, repeated] 3,
            event_metadata: BTreeMap<i64, XEventMetadata> = [btree_map = "int64, message"] 4,
            stat_metadata: BTreeMap<i64, XStatMetadata> = [btree_map = "int64, message"] 5,
            stats: Vec<XStat> = [message, repeated] 6,
        }
        XLine {
            id: i64 = [int64] 1,
            name: String = [string] 2,
            timestamp_ns: i64 = [int64] 3,
            events: Vec<XEvent> = [message, repeated] 4,
            duration_ps: i64 = [int64] 9,
        }
        XEvent {
            metadata_id: i64 = [int64] 1,
            offset_ps: i64 = [int64] 2,
            duration_ps: i64 = [int64] 3,
            stats: Vec<XStat> = [message, repeated] 4,
        }
        XStat {
            metadata_id: i64 = [int64] 1,
            value: Option<XValue> = [oneof = "XValue"] (2, 3, 4, 5, 6, 7),
        }
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

    messages! {
        XEventMetadata {
            id: i64 = [int64] 1,
            name: String = [string] 2,
            metadata: Vec<u8> = [bytes = "vec"] 3,
            display_name: String = [string] 4,
            stats: Vec<XStat> = [message, repeated] 5,
        }
        XStatMetadata {
            id: i64 = [int64] 1,
            name: String = [string] 2,
        }
        MemoryAccess {
            /// 1 read, 2 write.
            operation_type: i32 = [int32] 1,
            /// 1 HBM.
            memory_space: u64 = [uint64] 2,
            bytes_accessed: u64 = [uint64] 3,
        }
        MemoryAccessBreakdown {
            memory_accessed: Vec<MemoryAccess> = [message, repeated] 1,
        }
    }
}

pub mod hlo;
