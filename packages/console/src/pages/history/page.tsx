import type { ReactNode } from "react";
import { Route, Switch } from "wouter";
import { RevisionList } from "./revision-list.tsx";
import { RevisionPage } from "./revision-page.tsx";
import "./history.css";

export function HistoryPage(): ReactNode {
  return (
    <Switch>
      <Route path="/history">
        <RevisionList />
      </Route>
      <Route path="/history/:rev">{({ rev }) => <RevisionPage key={rev} rev={rev} />}</Route>
    </Switch>
  );
}
