import { create } from "@bufbuild/protobuf";
import {
  DurationSchema,
  FieldMaskSchema,
  TimestampSchema,
  type Duration,
  type FieldMask,
  type Timestamp,
} from "@bufbuild/protobuf/wkt";

/** A well-known type whose JSON form is a string. */
export type TextForm = {
  /** Returns undefined if the text is invalid. */
  readonly parse: (text: string) => Timestamp | Duration | FieldMask | undefined;
  readonly expected: string;
};

/** By full name. */
export const textForms: ReadonlyMap<string, TextForm> = new Map<string, TextForm>([
  [
    TimestampSchema.typeName,
    { parse: parseTimestamp, expected: "a time as in RFC 3339, such as 2024-02-29T12:00:00Z" },
  ],
  [DurationSchema.typeName, { parse: parseDuration, expected: "a duration in seconds, such as 1.5s" }],
  [FieldMaskSchema.typeName, { parse: parseFieldMask, expected: "names of fields, separated by commas" }],
]);

const time =
  /^(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))$/;
const firstSecond = Date.parse("0001-01-01T00:00:00Z") / 1000;
const lastSecond = Date.parse("9999-12-31T23:59:59Z") / 1000;

function parseTimestamp(text: string): Timestamp | undefined {
  const match = time.exec(text);
  if (match === null) {
    return undefined;
  }
  const [, year, month, day, hour, minute, second, fraction, sign, hours, minutes] = match;
  // Date accepts February 30 as March 1.
  if (Number(day) > daysOf(Number(year), Number(month))) {
    return undefined;
  }
  // Date.UTC maps the years 0 to 99 to 1900 to 1999.
  const utc = text.startsWith("00")
    ? Date.parse(`${text.slice(0, 19)}Z`)
    : Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  const offset = sign === undefined ? 0 : (Number(hours) * 60 + Number(minutes)) * (sign === "-" ? -60 : 60);
  const seconds = utc / 1000 - offset;
  if (seconds < firstSecond || seconds > lastSecond) {
    return undefined;
  }
  const timestamp = create(TimestampSchema);
  timestamp.seconds = BigInt(seconds);
  timestamp.nanos = nanosOf(fraction);
  return timestamp;
}

/** Throws for a time that the proto3 JSON mapping cannot represent. */
export function formatTimestamp({ seconds, nanos }: Timestamp): string {
  const whole = Number(seconds);
  if (!(whole >= firstSecond && whole <= lastSecond && nanos >= 0 && nanos <= 999_999_999)) {
    throw new RangeError(
      "a google.protobuf.Timestamp must be from the years 1 to 9999, its nanos from 0 to 999,999,999",
    );
  }
  const text = new Date(whole * 1000).toISOString().slice(0, 19);
  if (nanos === 0) {
    return `${text}Z`;
  }
  const fraction = String(nanos).padStart(9, "0");
  const digits = fraction.endsWith("000000") ? 3 : fraction.endsWith("000") ? 6 : 9;
  return `${text}.${fraction.slice(0, digits)}Z`;
}

function daysOf(year: number, month: number): number {
  if (month === 2) {
    return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  }
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

const seconds = /^(-?)(0|[1-9]\d{0,11})(?:\.(\d{1,9}))?s$/;
const longest = 315_576_000_000;

function parseDuration(text: string): Duration | undefined {
  const match = seconds.exec(text);
  if (match === null) {
    return undefined;
  }
  const [, minus, whole, fraction] = match;
  const nanos = nanosOf(fraction);
  if (Number(whole) > longest || (Number(whole) === longest && nanos > 0)) {
    return undefined;
  }
  const sign = minus === "-" ? -1 : 1;
  // Adding zero turns -0 into 0, as the binary decoder returns it.
  return create(DurationSchema, { seconds: BigInt(Number(whole) * sign), nanos: nanos * sign + 0 });
}

function nanosOf(fraction: string | undefined): number {
  return fraction === undefined ? 0 : Number(fraction.padEnd(9, "0"));
}

/** `*` stands for all fields (AIP-134). */
const maskPath = /^(?:\*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)$/;

/** Accepts both spellings: the lowerCamelCase of the proto3 JSON mapping, and the names in the .proto. */
function parseFieldMask(text: string): FieldMask | undefined {
  if (text === "") {
    return create(FieldMaskSchema);
  }
  const paths = text.split(",");
  return paths.every((path) => maskPath.test(path))
    ? create(FieldMaskSchema, { paths: paths.map((path) => (/[A-Z]/.test(path) ? snakeCase(path) : path)) })
    : undefined;
}

/** A name in lowerCamelCase as the .proto has it. */
export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
