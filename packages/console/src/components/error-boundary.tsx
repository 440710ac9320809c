import { Component, type ReactNode } from "react";
import { messageOf } from "../api/transport.ts";
import { texts } from "../texts/app.ts";
import { Notice } from "./notice.tsx";

/** Shows what has failed in place of its children. The rest of the page remains usable. */
export class ErrorBoundary extends Component<{ readonly children: ReactNode }, { readonly error: unknown }> {
  override state = { error: undefined };

  static getDerivedStateFromError(error: unknown): { readonly error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) {
      return this.props.children;
    }
    return (
      <Notice title={texts.failed}>
        <p>{messageOf(error)}</p>
        <button type="button" onClick={() => location.reload()}>
          {texts.reload}
        </button>
      </Notice>
    );
  }
}
