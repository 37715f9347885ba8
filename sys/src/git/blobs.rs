//! The contents of files.

use mahabharatha_core::ids::Oid;

use super::{Call, Git, Result};

impl Git {
    /// The name that these bytes have as a blob; nothing is written.
    pub fn name_of(&self, bytes: &[u8]) -> Result<Oid> {
        self.call(Call::new(["hash-object", "--stdin"]).input(bytes))?.oid()
    }

    /// The bytes of each blob, in the order asked.
    pub fn read_blobs(&self, blobs: &[&Oid]) -> Result<Vec<Vec<u8>>> {
        if blobs.is_empty() {
            return Ok(Vec::new());
        }
        let input: String = blobs.iter().map(|oid| format!("{oid}\n")).collect();
        let output = self.call(Call::new(["cat-file", "--batch"]).input(input))?;
        let mut rest = &output.bytes[..];
        let mut contents = Vec::new();
        for _ in blobs {
            let read = || {
                let end = rest.iter().position(|&byte| byte == b'\n')?;
                let size: usize = std::str::from_utf8(&rest[..end]).ok()?.rsplit(' ').next()?.parse().ok()?;
                let content = rest.get(end + 1..end + 1 + size)?;
                Some((content.to_vec(), rest.get(end + 2 + size..)?))
            };
            let (content, after) = read().ok_or_else(|| output.unexpected("an object that cannot be read"))?;
            contents.push(content);
            rest = after;
        }
        Ok(contents)
    }
}
