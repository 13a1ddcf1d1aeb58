//! The table as a Parquet file: texts are UTF-8, numbers doubles (not a number where a point has none).

use crate::bad;
use crate::numbers::NUMBERS;
use crate::table::{Row, Table};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;
use systole_runtime::RuntimeError;

/// A column of texts: its name, and a row's.
type Texts<'a> = (String, Box<dyn Fn(&Row) -> String + 'a>);

impl Table {
    /// The table as a Parquet file. Dots in names are underscores.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn parquet(&self) -> Result<Vec<u8>, RuntimeError> {
        self.written().map_err(|e| bad(format!("table: {e}")))
    }

    fn texts(&self) -> Vec<Texts<'_>> {
        let mut out: Vec<Texts<'_>> = vec![
            ("id".into(), Box::new(|r| r.case.id.clone())),
            ("program".into(), Box::new(|r| r.case.program.clone())),
            ("chip".into(), Box::new(|r| r.case.chip.clone())),
            ("status".into(), Box::new(|r| r.status.to_string())),
            ("reason".into(), Box::new(|r| r.reason.clone())),
            ("bound".into(), Box::new(|r| r.bound.clone())),
            ("broken".into(), Box::new(|r| r.broken.join("; "))),
            ("front".into(), Box::new(|r| r.front.to_string())),
        ];
        for k in &self.keys {
            let own = move |r: &Row| r.case.value(k).cloned().unwrap_or_default();
            out.push((k.clone(), Box::new(own)));
        }
        out
    }

    fn written(&self) -> Result<Vec<u8>, ParquetError> {
        let texts = self.texts();
        let plain = |n: &str| n.replace(['.', '-'], "_");
        let mut schema = "message sweep {\n".to_string();
        texts.iter().for_each(|t| schema += &format!("required binary {} (UTF8);\n", plain(&t.0)));
        NUMBERS.iter().for_each(|n| schema += &format!("required double {};\n", n.0));
        let schema = Arc::new(parse_message_type(&(schema + "}"))?);
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build()))?;
        let mut group = file.next_row_group()?;
        for (_, text) in &texts {
            let Some(mut column) = group.next_column()? else { break };
            let values: Vec<ByteArray> = self.rows.iter().map(|r| ByteArray::from(text(r).into_bytes())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            column.close()?;
        }
        for (name, _) in NUMBERS {
            let Some(mut column) = group.next_column()? else { break };
            let number = |r: &Row| if r.status == "ok" { r.numbers.get(name).unwrap_or(f64::NAN) } else { f64::NAN };
            let values: Vec<f64> = self.rows.iter().map(number).collect();
            column.typed::<DoubleType>().write_batch(&values, None, None)?;
            column.close()?;
        }
        group.close()?;
        file.close()?;
        Ok(bytes)
    }
}
