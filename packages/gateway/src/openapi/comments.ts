import { createFileRegistry, type AnyDesc, type DescEnum, type DescMessage } from "@bufbuild/protobuf";
import type { FileDescriptorSet } from "@bufbuild/protobuf/wkt";

/** Returns the comment of a declaration in Markdown; undefined if it has none. */
export type Comments = (desc: AnyDesc) => string | undefined;

/**
 * Reads the comments of .proto files from a descriptor set with source info (`buf build --as-file-descriptor-set`), since
 * generated code has no comments. Comments are looked up by full name, so the descriptors can come from another source.
 */
export function readComments(set: FileDescriptorSet): Comments {
  const comments = new Map<string, string>();
  const registry = createFileRegistry(set);
  for (const file of registry.files) {
    const byPath = new Map(
      file.proto.sourceCodeInfo?.location.map((location) => [
        location.path.join("."),
        cleanComment(location.leadingComments || location.trailingComments),
      ]),
    );
    const add = (desc: AnyDesc): void => {
      const comment = byPath.get(pathOf(desc).join("."));
      if (comment !== undefined && comment !== "") {
        comments.set(desc.toString(), comment);
      }
    };
    const addEnum = (desc: DescEnum): void => [desc, ...desc.values].forEach(add);
    const addMessage = (desc: DescMessage): void => {
      [desc, ...desc.fields, ...desc.oneofs].forEach(add);
      desc.nestedEnums.forEach(addEnum);
      desc.nestedMessages.forEach(addMessage);
    };
    file.enums.forEach(addEnum);
    file.messages.forEach(addMessage);
    for (const service of file.services) {
      [service, ...service.methods].forEach(add);
    }
  }
  return (desc) => comments.get(desc.toString());
}

/** The path of a declaration in its FileDescriptorProto: field numbers and indices, as in SourceCodeInfo.Location. */
function pathOf(desc: AnyDesc): number[] {
  switch (desc.kind) {
    case "message":
      return desc.parent === undefined
        ? [4, desc.file.proto.messageType.indexOf(desc.proto)]
        : [...pathOf(desc.parent), 3, desc.parent.proto.nestedType.indexOf(desc.proto)];
    case "enum":
      return desc.parent === undefined
        ? [5, desc.file.proto.enumType.indexOf(desc.proto)]
        : [...pathOf(desc.parent), 4, desc.parent.proto.enumType.indexOf(desc.proto)];
    case "field":
      return [...pathOf(desc.parent), 2, desc.parent.proto.field.indexOf(desc.proto)];
    case "oneof":
      return [...pathOf(desc.parent), 8, desc.parent.proto.oneofDecl.indexOf(desc.proto)];
    case "enum_value":
      return [...pathOf(desc.parent), 2, desc.parent.proto.value.indexOf(desc.proto)];
    case "service":
      return [6, desc.file.proto.service.indexOf(desc.proto)];
    case "rpc":
      return [...pathOf(desc.parent), 2, desc.parent.proto.method.indexOf(desc.proto)];
    case "file":
    case "extension":
      return [];
  }
}

/** Removes the space after `//`, directives for tools, and internal comments: `(-- … --)`, as in AIP-192. */
function cleanComment(text: string): string {
  return text
    .replaceAll(/\(--.*?--\)/gs, "")
    .split("\n")
    .map((line) => line.replace(/^ /, "").trimEnd())
    .filter((line) => !/^(?:buf:lint:|@ignore-comment)/.test(line))
    .join("\n")
    .trim();
}

export function firstSentence(comment: string): string {
  const [paragraph = ""] = comment.split(/\n\s*\n/, 1);
  const line = paragraph.replaceAll(/\s+/g, " ");
  const end = /^.*?[.;:](?= |$)/.exec(line)?.[0] ?? line;
  return end.replace(/[.;:]$/, "");
}

/** The paragraphs as a description; nothing if all are empty. */
export function describe(...paragraphs: (string | undefined)[]): { description?: string } {
  const text = paragraphs.filter((each) => each !== undefined && each !== "").join("\n\n");
  return text === "" ? {} : { description: text };
}
