import type { ReactNode } from "react";
import type { GetSettingsResponse } from "@flowgate/client";
import { Sign } from "../../components/sign.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { explainPermission, permissionTexts } from "../../texts/permissions.ts";
import { texts } from "../../texts/settings.ts";
import { grantOf } from "./permissions.ts";

type Row = { readonly name: string; readonly meaning: string; readonly grant: ReturnType<typeof grantOf> };

const columns: readonly Column<Row>[] = [
  { title: texts.permission, cell: ({ name }) => <code>{name}</code> },
  { title: texts.granted, cell: ({ grant }) => <Grant grant={grant} /> },
  { title: texts.meaning, cell: ({ meaning }) => meaning },
];

type Role = GetSettingsResponse["roles"][number];

const roleColumns: readonly Column<Role>[] = [
  { title: texts.role, cell: ({ name }) => <code>{visibleText(name)}</code> },
  { title: texts.meaning, cell: ({ permissions }) => <Granted permissions={permissions} /> },
];

/** The roles of the configuration with what they permit. */
export function RoleTable({ roles }: { readonly roles: readonly Role[] }): ReactNode {
  return <Table label={texts.roles} columns={roleColumns} rows={roles} keyOf={({ name }) => name} empty={null} />;
}

/** Permissions with their meanings. */
export function Granted({ permissions }: { readonly permissions: readonly string[] }): ReactNode {
  return permissions.length === 0 ? (
    texts.none
  ) : (
    <ul className="settings-granted">
      {permissions.map((name) => (
        <li key={name}>
          <code>{visibleText(name)}</code>{" "}
          <span className="muted">{visibleText(explainPermission(name) ?? texts.unknownPermission)}</span>
        </li>
      ))}
    </ul>
  );
}

/** All permissions with what they permit, and which of them the user has. */
export function PermissionTable({ granted }: { readonly granted: readonly string[] }): ReactNode {
  const { can } = useSession();
  const rows = Object.entries(permissionTexts).map(([name, meaning]) => ({
    name,
    meaning,
    grant: grantOf(name, granted, can(name)),
  }));
  return <Table label={texts.permissionsTable} columns={columns} rows={rows} keyOf={({ name }) => name} empty={null} />;
}

function Grant({ grant }: Pick<Row, "grant">): ReactNode {
  switch (grant) {
    case "all":
      return <Sign tone="good">{texts.yes}</Sign>;
    case "some tabs":
      return <Sign tone="info">{texts.onTabs}</Sign>;
    case "none":
      return <Sign tone="neutral">{texts.no}</Sign>;
  }
}
