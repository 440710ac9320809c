import * as z from "zod";
import { wholeNumber } from "./values.ts";

export const cors = z.strictObject({
  origins: z
    .array(
      z
        .string("must be an origin")
        .refine(
          isOrigin,
          'must be "*" or an origin in the form of the Origin header, such as https://app.example, without a path',
        ),
      "must be a list of origins",
    )
    .min(1, "must name at least one origin")
    .readonly()
    .describe('Origins such as `https://app.example`. `"*"` permits every origin.'),
  maxAgeSeconds: wholeNumber(0, 86_400)
    .default(600)
    .describe("How long browsers may cache the response to a preflight request."),
});

/** Whether a text is a serialized origin. Origins of other schemes, such as browser extensions, have no port. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text)
    ? URL.parse(text)?.origin === text && !text.includes("*")
    : text === "*" || /^[a-z][a-z\d+.-]*:\/\/[\w.-]+$/.test(text);
}
