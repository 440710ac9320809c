import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** The service that `npm run dev` asks, as the command line finds it. */
const service = process.env["FLOWGATE_SERVER"] ?? "http://127.0.0.1:8080";

export default defineConfig(({ command }) => ({
  plugins: [react()],
  // The built pages work below any path prefix: the service makes the paths relative to that of the page.
  base: command === "build" ? "./" : "/console/",
  html: { cspNonce: "CSP_NONCE" },
  build: {
    outDir: "../../dist/console",
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    // Data URLs and inline code would need exceptions in the Content Security Policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1_000,
  },
  server: {
    // With the host of this server, since the service refuses calls of pages of other origins.
    proxy: { "^/(?:flowgate\\.v1\\.|sign-in|sign-out|docs|openapi\\.json)": { target: service, changeOrigin: false } },
  },
}));
