import { Component, type ComponentType, lazy, type ReactNode, Suspense, useState } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { AuthService } from "@flowgate/client";
import { Link, Route, Switch, useLocation, useRoute } from "wouter";
import { useIsLive } from "./api/live.tsx";
import { docsUrl, signInUrl, signOutUrl } from "./api/paths.ts";
import { messageOf } from "./api/transport.ts";
import { useSession } from "./session.tsx";
import { Loading, Notice } from "./components/notice.tsx";
import { texts } from "./texts/app.ts";

type Page = {
  readonly name: keyof typeof texts.pages;
  /** Each page decides about the rest of its path. */
  readonly path: string;
  readonly permission: string;
  readonly Component: ComponentType;
};

const pages: readonly Page[] = [
  page("overview", "/", "runtime.read", async () => (await import("./pages/overview/page.tsx")).OverviewPage),
  page("flows", "/flows", "flows.read", async () => (await import("./pages/flows/page.tsx")).FlowsPage),
  page("history", "/history", "revisions.read", async () => (await import("./pages/history/page.tsx")).HistoryPage),
  page("deploy", "/deploy", "flows.read", async () => (await import("./pages/deploy/page.tsx")).DeployPage),
  page(
    "proposals",
    "/proposals",
    "proposals.read",
    async () => (await import("./pages/proposals/page.tsx")).ProposalsPage,
  ),
  page("logs", "/logs", "logs.read", async () => (await import("./pages/logs/page.tsx")).LogsPage),
  page("modules", "/modules", "modules.read", async () => (await import("./pages/modules/page.tsx")).ModulesPage),
  page("context", "/context", "context.read", async () => (await import("./pages/context/page.tsx")).ContextPage),
  page("tokens", "/tokens", "tokens.read", async () => (await import("./pages/tokens/page.tsx")).TokensPage),
  page("audit", "/audit", "audit.read", async () => (await import("./pages/audit/page.tsx")).AuditPage),
  page("settings", "/settings", "settings.read", async () => (await import("./pages/settings/page.tsx")).SettingsPage),
];

function page(name: Page["name"], path: string, permission: string, load: () => Promise<ComponentType>): Page {
  return { name, path, permission, Component: lazy(async () => ({ default: await load() })) };
}

export function App(): ReactNode {
  const [location] = useLocation();
  return (
    <div className="app">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <Header />
      <main id="content" tabIndex={-1}>
        <ErrorBoundary key={location.split("/", 2)[1]}>
          <Suspense fallback={<Loading />}>
            <Switch>
              {pages.map(({ name, path, Component }) => (
                <Route key={name} path={path === "/" ? path : `${path}/*?`} component={Component} />
              ))}
              <Route>
                <Notice title="There is no such page">It may have moved. All pages are in the navigation.</Notice>
              </Route>
            </Switch>
          </Suspense>
        </ErrorBoundary>
      </main>
    </div>
  );
}

function Header(): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const { can } = useSession();
  return (
    <header className="app-header" data-open={isOpen}>
      <div className="app-title">
        <Link href="/" className="product">
          {texts.product}
        </Link>
        <LiveSign />
        <button
          type="button"
          className="menu-button"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => setOpen(!isOpen)}
        >
          Menu
        </button>
      </div>
      <div id="navigation" className="app-menu">
        <nav aria-label="Pages">
          <ul className="plain-list">
            {pages
              .filter(({ permission }) => can(permission))
              .map(({ name, path }) => (
                <li key={name}>
                  <PageLink name={name} path={path} onClick={() => setOpen(false)} />
                </li>
              ))}
          </ul>
        </nav>
        <Account />
      </div>
    </header>
  );
}

function PageLink({ name, path, onClick }: Pick<Page, "name" | "path"> & { readonly onClick: () => void }): ReactNode {
  const [isCurrent] = useRoute(path === "/" ? path : `${path}/*?`);
  return (
    <Link href={path} onClick={onClick} aria-current={isCurrent ? "page" : undefined}>
      {texts.pages[name]}
    </Link>
  );
}

function LiveSign(): ReactNode {
  const { can } = useSession();
  const isLive = useIsLive();
  if (!can("events.read")) {
    return null;
  }
  return (
    <output className="live-sign" data-live={isLive}>
      {isLive ? "Live" : "Not live: reconnecting"}
    </output>
  );
}

function Account(): ReactNode {
  const { username } = useSession();
  const { data: login } = useQuery(AuthService.method.getLogin, {}, { enabled: username === "" });
  return (
    <div className="account">
      <a href={docsUrl}>API reference</a>
      {username === "" ? (
        // Without authentication there is nothing to sign in to.
        login !== undefined && login.type !== "" && <a href={signInUrl()}>{texts.signIn}</a>
      ) : (
        <>
          <span>{texts.signedInAs(username)}</span>
          <a href={signOutUrl}>Sign out</a>
        </>
      )}
    </div>
  );
}

class ErrorBoundary extends Component<{ readonly children: ReactNode }, { readonly error: unknown }> {
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
      <Notice title="This page has failed">
        <p>{messageOf(error)}</p>
        <button type="button" onClick={() => location.reload()}>
          Load it again
        </button>
      </Notice>
    );
  }
}
