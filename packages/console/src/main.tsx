import "./styles.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { TransportProvider } from "@connectrpc/connect-query";
import { QueryClientProvider } from "@tanstack/react-query";
import { Router } from "wouter";
import { consolePath } from "./api/paths.ts";
import { LiveProvider } from "./api/live.tsx";
import { SessionProvider } from "./session.tsx";
import { createQueries, createTransport } from "./api/transport.ts";
import { App } from "./app.tsx";

const root = document.querySelector("#root");
if (root === null) {
  throw new TypeError("the page has no #root");
}
createRoot(root).render(
  <StrictMode>
    <TransportProvider transport={createTransport()}>
      <QueryClientProvider client={createQueries()}>
        <Router base={consolePath}>
          <SessionProvider>
            <LiveProvider>
              <App />
            </LiveProvider>
          </SessionProvider>
        </Router>
      </QueryClientProvider>
    </TransportProvider>
  </StrictMode>,
);
