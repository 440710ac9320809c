import type { Guard } from "../pipeline/pipeline.ts";

/**
 * Makes browsers take a response for what its Content-Type says, and keeps pages of other origins from embedding it as
 * an image, a script or the like, so that its bytes stay out of their process. CORS is not affected.
 */
export const addSecurityHeaders: Guard = (request) => {
  // Every browser's User-Agent begins so, and no page can change it. Other clients have no use for these headers.
  if (request.headers["user-agent"]?.startsWith("Mozilla/") === true) {
    request.setResponseHeader("x-content-type-options", "nosniff");
    request.setResponseHeader("cross-origin-resource-policy", "same-origin");
  }
  return undefined;
};
