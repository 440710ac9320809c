/**
 * Expands a path template as http.proto specifies, without this package's code. `valueOf` returns the value of a variable, or
 * the text of a wildcard outside of variables, whose field path is empty.
 */
export function expand(template: string, valueOf: (fieldPath: string, pattern: string) => string): string {
  return template.replaceAll(
    /\{([\w.]+)(?:=([^}]+))?\}|\*+/g,
    (match: string, fieldPath = "", pattern = fieldPath === "" ? match : "*") => {
      const value = valueOf(fieldPath, pattern);
      const parts = /\/|\*\*/.test(pattern) ? value.split("/") : [value];
      return parts.map(encodeURIComponent).join("/");
    },
  );
}
