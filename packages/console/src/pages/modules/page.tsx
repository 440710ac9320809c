import type { ReactNode } from "react";
import { Page } from "../../components/page.tsx";
import { texts } from "../../texts/app.ts";

export function ModulesPage(): ReactNode {
  return <Page title={texts.pages.modules}>{null}</Page>;
}
