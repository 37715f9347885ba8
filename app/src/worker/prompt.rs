//! What the agent is told.

use super::order::Order;

pub fn prompt_text(order: &Order) -> String {
    let task = &order.task;
    let mut text = format!("# Task {}: {}\n\n", task.id, task.title);
    for (heading, part) in [("Description", &task.description), ("Action", &task.action), ("Done when", &task.done)] {
        if let Some(part) = part {
            text.push_str(&format!("## {heading}\n\n{part}\n\n"));
        }
    }
    text.push_str("## Files that you may create or change, and no others\n\n");
    for owned in &order.owned {
        text.push_str(&format!("- {}{}\n", owned.path, if owned.directory { "/" } else { "" }));
    }
    text.push_str(&format!("\n## Verification\n\n{}\n", task.verification.command));
    let carry = &order.job.carry;
    for (heading, part) in
        [("The attempt before failed", &carry.feedback), ("Where the attempt before stopped", &carry.note)]
    {
        if let Some(part) = part {
            text.push_str(&format!("\n## {heading}\n\n{part}\n"));
        }
    }
    text
}
