import type { DescMessage, Message } from "@bufbuild/protobuf";
import { parameterError, levelOf, resolveParameter, type ParameterOptions } from "./parameter-name.ts";
import { setParameter } from "./parameter-value.ts";
import { decodeParameter } from "../routing/percent.ts";

/** Puts the parameters that stand in a text from `start` on into a message. Throws a RequestError for the first that does not fit. */
export type ParameterReader = (message: Message, text: string, start: number) => void;

/**
 * Compiles the binder of `a=1&b.c=2`: each name is the path to a field, by the names of the .proto or those of JSON at
 * each level. A repeated field takes one parameter for each item, in their order; a map `m[key]=value` for each
 * entry, or all as JSON; Struct, Value and ListValue are JSON. No other field is given twice, nor two of a oneof.
 */
export function createParameterReader(desc: DescMessage, options: ParameterOptions): ParameterReader {
  const root = levelOf(desc);
  return (message, text, start) => {
    let seen: Set<string> | undefined;
    let first: string | undefined;
    for (let at = start; at < text.length;) {
      let end = text.indexOf("&", at);
      if (end === -1) {
        end = text.length;
      }
      if (end > at) {
        const equals = text.indexOf("=", at);
        const hasValue = equals !== -1 && equals < end;
        const name = decodeParameter(text.slice(at, hasValue ? equals : end), options.from);
        const value = hasValue ? decodeParameter(text.slice(equals + 1, end), options.from) : "";
        const target = resolveParameter(root, name, options);
        if (target !== undefined) {
          const { leaf } = target;
          // Items and entries may come again; an entry's key is looked at where it is set.
          if (leaf.kind === "value") {
            const key = target.steps === undefined ? leaf.name : target.path;
            if (key === first || seen?.has(key) === true) {
              throw parameterError(target, "given more than once");
            }
            if (first === undefined) {
              first = key;
            } else {
              (seen ??= new Set()).add(key);
            }
          }
          setParameter(message, target, value, options.registry);
        }
      }
      at = end + 1;
    }
  };
}
