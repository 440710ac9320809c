import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  Color,
  RepeatDataRequestSchema,
  type ComplianceService,
  type RepeatDataRequest,
  type SampleSchema,
} from "./gen/gatewaytest/v1/compliance_pb.ts";

export type RepeatRpc = Exclude<keyof typeof ComplianceService.method, "getEnum" | "verifyEnum">;

/** The groups of gapic-showcase's compliance suite: which RPCs get which kinds of messages. The values are our own. */
type Group = {
  readonly rpcs: readonly RepeatRpc[];
  readonly requests: Readonly<Record<string, MessageInitShape<typeof RepeatDataRequestSchema>>>;
};

const bodies: readonly RepeatRpc[] = ["repeatDataBody", "repeatDataBodyPut", "repeatDataBodyPatch"];

const implicit = {
  text: "Hallo",
  int32Value: -12,
  sint32Value: -23,
  sfixed32Value: -34,
  uint32Value: 45,
  fixed32Value: 56,
  int64Value: -67n,
  sint64Value: -78n,
  sfixed64Value: -89n,
  uint64Value: 98n,
  fixed64Value: 87n,
  doubleValue: -7.6e-5,
  floatValue: -65,
  boolValue: true,
  data: Uint8Array.of(0, 62, 63, 251, 255),
  color: Color.BLUE,
  part: { text: "books/flag/true", floatValue: 0.5, color: Color.RED, detail: { text: "d", boolValue: true } },
} satisfies MessageInitShape<typeof SampleSchema>;

const explicit = {
  optionalText: "Welt",
  optionalInt32: -21,
  optionalSint32: -32,
  optionalSfixed32: -43,
  optionalUint32: 54,
  optionalFixed32: 65,
  optionalInt64: -76n,
  optionalSint64: -87n,
  optionalSfixed64: -98n,
  optionalUint64: 89n,
  optionalFixed64: 78n,
  optionalDouble: -10.25,
  optionalFloat: 6.5,
  optionalBool: true,
  optionalColor: Color.GREEN,
  optionalPart: { optionalText: "o", optionalDouble: 1.5, optionalDetail: { doubleValue: 2.5 } },
} satisfies MessageInitShape<typeof SampleSchema>;

const explicitZeros = {
  optionalInt32: 0,
  optionalSint32: 0,
  optionalSfixed32: 0,
  optionalUint32: 0,
  optionalFixed32: 0,
  optionalInt64: 0n,
  optionalSint64: 0n,
  optionalSfixed64: 0n,
  optionalUint64: 0n,
  optionalFixed64: 0n,
  optionalDouble: 0,
  optionalFloat: 0,
  optionalBool: false,
  optionalColor: Color.UNSPECIFIED,
} satisfies MessageInitShape<typeof SampleSchema>;

const maxDouble = Number.MAX_VALUE;
const maxFloat = (2 - 2 ** -23) * 2 ** 127;
const [max32, maxUnsigned32, max64, maxUnsigned64] = [2 ** 31 - 1, 2 ** 32 - 1, 2n ** 63n - 1n, 2n ** 64n - 1n];

const extremes = {
  text: "Größe ⇒ ✓ 😀 \"'\\ \b\f\r\t\u2028 /?#[]@!$&'()*+,;=%41",
  int32Value: max32,
  sint32Value: max32,
  sfixed32Value: max32,
  uint32Value: maxUnsigned32,
  fixed32Value: maxUnsigned32,
  int64Value: max64,
  sint64Value: max64,
  sfixed64Value: max64,
  uint64Value: maxUnsigned64,
  fixed64Value: maxUnsigned64,
  doubleValue: maxDouble,
  floatValue: maxFloat,
  optionalInt32: -max32 - 1,
  optionalInt64: -max64 - 1n,
  optionalDouble: Number.MIN_VALUE,
  optionalFloat: -maxFloat,
} satisfies MessageInitShape<typeof SampleSchema>;

const groups: readonly Group[] = [
  {
    rpcs: [...bodies, "repeatDataQuery", "repeatDataSimplePath", "repeatDataBodyInfo"],
    requests: {
      "all types": {
        sample: { ...implicit, ...explicit },
        int32Value: -1,
        int64Value: -2n,
        doubleValue: -3.5,
        optionalInt32: -4,
        optionalInt64: -5n,
        optionalDouble: -6.5,
      },
      "all types without presence": { sample: implicit },
      "zeros of all types but strings": {
        sample: { text: "zeros", optionalText: "explicit", ...explicitZeros },
        optionalInt32: 0,
        optionalInt64: 0n,
        optionalDouble: 0,
      },
      extremes: { sample: extremes },
      spaces: { sample: { text: " one  two " } },
      quotes: { sample: { text: `"double" and 'single'` } },
      percents: { sample: { text: "50% of %20" } },
    },
  },
  {
    rpcs: [...bodies, "repeatDataQuery", "repeatDataSimplePath"],
    requests: {
      "slashes that resemble the segments of another template": {
        sample: { text: "shelves/a/books/b", optionalBool: true, part: { text: "books/c/flag/true" } },
      },
    },
  },
  {
    rpcs: ["repeatDataPathResource", "repeatDataPathTrailingResource"],
    requests: {
      "the resources of the first binding": {
        sample: { text: "shelves/a b", optionalBool: true, part: { text: "books/c:d%" } },
      },
    },
  },
  {
    rpcs: ["repeatDataPathResource"],
    requests: {
      "the resources of the additional binding": {
        sample: { text: "books/c:d%", optionalBool: true, part: { text: "shelves/a b" } },
      },
    },
  },
  {
    rpcs: ["repeatDataPathTrailingResource"],
    requests: {
      "a resource of several segments": { sample: { text: "shelves/a", part: { text: "books/b/flag/true" } } },
    },
  },
  {
    rpcs: [...bodies, "repeatDataQuery"],
    requests: { "zeros of all types": { sample: { text: "", optionalText: "", ...explicitZeros } } },
  },
];

/** Each RPC of each group with each of its messages; the name of the message is its field `name`. */
export const complianceCases: readonly (readonly [rpc: RepeatRpc, name: string, message: RepeatDataRequest])[] =
  groups.flatMap(({ rpcs, requests }) =>
    rpcs.flatMap((rpc) =>
      Object.entries(requests).map(
        ([name, init]) => [rpc, name, create(RepeatDataRequestSchema, { name, ...init })] as const,
      ),
    ),
  );
