import { createContext, type ReactNode, useContext, useMemo } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { AuthService, permits } from "@flowgate/client";
import { isUnauthenticated } from "./api/transport.ts";
import { signInUrl } from "./api/paths.ts";
import { Loading, Notice, Problem } from "./components/notice.tsx";
import { texts } from "./texts/app.ts";

export type Session = {
  /** Empty: no one has to sign in. */
  readonly username: string;
  /** True if the caller has a permission such as `flows.write`, at least on some tabs. */
  readonly can: (permission: string) => boolean;
};

const SessionContext = createContext<Session | undefined>(undefined);

/** Shows its children to those who are signed in, or do not have to. */
export function SessionProvider({ children }: { readonly children: ReactNode }): ReactNode {
  const { data, error, isPending, refetch } = useQuery(AuthService.method.getIdentity, {}, { refetchInterval: 60_000 });
  const session = useMemo(
    (): Session | undefined =>
      data && { username: data.username, can: (permission) => permits(data.permissions, permission) },
    [data],
  );
  if (isUnauthenticated(error)) {
    return (
      <Notice title="You are not signed in">
        <a className="button primary" href={signInUrl()}>
          {texts.signIn}
        </a>
      </Notice>
    );
  }
  if (session !== undefined) {
    return <SessionContext value={session}>{children}</SessionContext>;
  }
  return isPending ? (
    <Loading />
  ) : (
    <Notice title="The service can't be reached">
      <Problem error={error} onRetry={() => void refetch()} />
    </Notice>
  );
}

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) {
    throw new TypeError("there is no SessionProvider");
  }
  return session;
}
