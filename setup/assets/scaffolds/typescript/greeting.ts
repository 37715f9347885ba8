export const maxNameLength = 64;

/** A name that nobody can be greeted by. */
export class InvalidNameError extends Error {
  override readonly name = "InvalidNameError";
}

/** Greets somebody by name. */
export function greet(name: string): string {
  const trimmed = name.trim();
  if (trimmed === "") {
    throw new InvalidNameError("the name is empty");
  }
  if (trimmed.length > maxNameLength) {
    throw new InvalidNameError(`the name is longer than ${maxNameLength} characters`);
  }
  return `Hello, ${trimmed}!`;
}
