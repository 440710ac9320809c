import * as z from "zod";
import { wholeNumber } from "./values.ts";

export const history = z
  .strictObject({
    maxRevisions: wholeNumber(2, 10_000_000)
      .default(10_000)
      .describe(
        "How many revisions are kept, the newest ones. Older ones are removed unless they are pinned. Also how many can be pinned.",
      ),
    maxAgeDays: wholeNumber(1, 36_500)
      .optional()
      .describe(
        "How long revisions are kept. The active one, its parent and pinned ones are kept longer. Absent: their age is not limited.",
      ),
  })
  .prefault({});
