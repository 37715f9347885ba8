//! Reads and hashes file contents.

use mahabharatha_core::ids::Oid;

use super::{Call, Git, MAX_OUTPUT_BYTES, Result};

impl Git {
    /// Returns the object name of these bytes as a blob, without writing the blob.
    pub fn hash_blob(&self, bytes: &[u8]) -> Result<Oid> {
        self.call(Call::new(["hash-object", "--stdin"]).input(bytes))?.oid()
    }

    /// Returns the size of each object, in the order given.
    pub fn blob_sizes(&self, blobs: &[&Oid]) -> Result<Vec<u64>> {
        if blobs.is_empty() {
            return Ok(Vec::new());
        }
        let input: String = blobs.iter().map(|oid| format!("{oid}\n")).collect();
        let output = self.call(Call::new(["cat-file", "--batch-check=%(objectsize)"]).input(input))?;
        let text = output.text()?;
        text.lines().map(|line| line.parse().map_err(|_| output.unexpected(line))).collect()
    }

    /// Returns the content of each blob, in the order given.
    pub fn read_blobs(&self, blobs: &[&Oid]) -> Result<Vec<Vec<u8>>> {
        let read = self.read_blobs_within(blobs, MAX_OUTPUT_BYTES)?;
        read.ok_or_else(|| Call::new(["cat-file", "--batch"]).unexpected("too much output"))
    }

    /// Like `read_blobs`; `None` if the contents are larger than about `limit` bytes together.
    pub fn read_blobs_within(&self, blobs: &[&Oid], limit: usize) -> Result<Option<Vec<Vec<u8>>>> {
        if blobs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let input: String = blobs.iter().map(|oid| format!("{oid}\n")).collect();
        let Some(output) = self.call_within(Call::new(["cat-file", "--batch"]).input(input), limit)? else {
            return Ok(None);
        };
        let mut rest = &output.bytes[..];
        let mut contents = Vec::new();
        for _ in blobs {
            let read = || {
                let end = rest.iter().position(|&byte| byte == b'\n')?;
                let size: usize = std::str::from_utf8(&rest[..end]).ok()?.rsplit(' ').next()?.parse().ok()?;
                let content = rest.get(end + 1..end + 1 + size)?;
                Some((content.to_vec(), rest.get(end + 2 + size..)?))
            };
            let (content, after) = read().ok_or_else(|| output.unexpected("unreadable object"))?;
            contents.push(content);
            rest = after;
        }
        Ok(Some(contents))
    }
}
