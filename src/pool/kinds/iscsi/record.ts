import { FailedPrecondition } from '../../../volume/errors.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import type { Portal } from '../../network-disk/portals.ts';
import type { IscsiContext } from './context.ts';

/**
 * The name of this driver's side of a session. Sessions of the host have another (`default` as a rule), so both may have one
 * to the same portal, and each is known by its name in sysfs.
 */
export const ifaceName = 'holdfast';

/** A login that is not answered is tried twice, for 10 s each. */
const loginAttempts = 2;
const loginTimeoutSeconds = 10;

export interface Chap {
  readonly username: string;
  readonly password: string;
  /** The name and the password by which the target proves itself. */
  readonly target: { readonly username: string; readonly password: string } | undefined;
}

/**
 * The record of a node, as iscsiadm(8) stores it: a line for each setting. Settings that are not there have the defaults
 * of open-iscsi, not those of the host's iscsid.conf.
 */
export function nodeRecord(
  { iqn, replacementTimeoutSeconds }: Pick<IscsiContext, 'iqn' | 'replacementTimeoutSeconds'>,
  { address, port }: Portal,
  chap: Chap | undefined,
): string {
  const settings: readonly (readonly [string, string | number])[] = [
    ['node.name', iqn],
    ['node.startup', 'manual'],
    ['iface.iscsi_ifacename', ifaceName],
    ['iface.transport_name', 'tcp'],
    // Only the volume's own unit is scanned, by the driver.
    ['node.session.scan', 'manual'],
    ['node.session.nr_sessions', 1],
    ['node.session.initial_login_retry_max', loginAttempts],
    ['node.session.timeo.replacement_timeout', replacementTimeoutSeconds],
    ['node.conn[0].address', address],
    ['node.conn[0].port', port],
    ['node.conn[0].timeo.login_timeout', loginTimeoutSeconds],
    ['node.conn[0].timeo.noop_out_interval', 5],
    ['node.conn[0].timeo.noop_out_timeout', 5],
    ['node.session.auth.authmethod', chap === undefined ? 'None' : 'CHAP'],
    ...chapSettings(chap),
  ];
  return settings.map(([key, value]) => `${key} = ${value}\n`).join('');
}

function chapSettings(chap: Chap | undefined): readonly (readonly [string, string])[] {
  if (chap === undefined) return [];
  const { password, target, username } = chap;
  return [
    [chapKeys.username, username],
    [chapKeys.password, password],
    ...(target === undefined
      ? []
      : ([
          [chapKeys.targetUsername, target.username],
          [chapKeys.targetPassword, target.password],
        ] as const)),
  ];
}

/** The names of open-iscsi, which the Secrets of the in-tree driver and of csi-driver-iscsi have, too. */
const chapKeys = {
  username: 'node.session.auth.username',
  password: 'node.session.auth.password',
  targetUsername: 'node.session.auth.username_in',
  targetPassword: 'node.session.auth.password_in',
} as const;

/** @param wanted `sessionCHAPAuth` @throws FailedPrecondition if the Secret has no usable names and passwords */
export function chapIn(secrets: Secrets | undefined, wanted: boolean | undefined): Chap | undefined {
  if (wanted === false) return undefined;
  const username = readValue(secrets, chapKeys.username);
  const password = readValue(secrets, chapKeys.password);
  if (username === undefined && password === undefined) {
    if (wanted === true) {
      throw new FailedPrecondition(
        `sessionCHAPAuth is true, but nodeStageSecretRef names no Secret with ${chapKeys.username} and ${chapKeys.password}.`,
      );
    }
    return undefined;
  }
  const targetUsername = readValue(secrets, chapKeys.targetUsername);
  const targetPassword = readValue(secrets, chapKeys.targetPassword);
  if (
    username === undefined ||
    password === undefined ||
    (targetUsername === undefined) !== (targetPassword === undefined)
  ) {
    throw new FailedPrecondition(
      `the Secret has a name without its password, or a password without its name: it needs ${chapKeys.username} and ${chapKeys.password}, and both with _in if the target must prove itself.`,
    );
  }
  const isMutual = targetUsername !== undefined && targetPassword !== undefined;
  return {
    username,
    password,
    target: isMutual ? { username: targetUsername, password: targetPassword } : undefined,
  };
}

/** A line of a record holds no other bytes than these, and open-iscsi keeps 255 of them. */
function readValue(secrets: Secrets | undefined, key: string): string | undefined {
  const value = secrets?.get(key);
  if (value === undefined || value === '') return undefined;
  if (/^[!-~]([ -~]{0,253}[!-~])?$/.test(value) && value !== '<empty>') return value;
  throw new FailedPrecondition(
    `the Secret's ${key} cannot be used: it must have 1 to 255 visible ASCII characters (a line break at its end counts).`,
  );
}
