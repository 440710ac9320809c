import type { Guard } from "../pipeline/pipeline.ts";

/**
 * Prevents pages of other origins from embedding a response as an image, script or the like, so that its bytes never reach their
 * process (Spectre). Does not affect CORS.
 */
export const addSecurityHeaders: Guard = (request) => {
  // The User-Agent of every browser begins with this, and pages can't change it. Other clients don't need the header.
  if (request.headers["user-agent"]?.startsWith("Mozilla/") === true) {
    request.setResponseHeader("cross-origin-resource-policy", "same-origin");
  }
  return undefined;
};
