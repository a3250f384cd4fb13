import { IscsiError, iscsiCodes, iscsiLogin } from '../../../command/iscsiadm.ts';
import { type IscsiSession, iscsiSessions } from '../../../kernel/block/iscsi.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { isSamePortal, type Portal } from '../../network-disk/portals.ts';
import { reachPortal } from '../../network-disk/reach-portal.ts';
import type { ConnectOptions } from '../../network-disk/target.ts';
import type { VolumeOnNode } from '../../node-side.ts';
import { type Connection, isNamedOurs, isThrough, lunsOf, ourSessions } from './connections.ts';
import type { IscsiContext } from './context.ts';
import { type Chap, chapIn, ifaceName, nodeRecord } from './record.ts';
import { iscsiRunner, missingProgram } from './runner.ts';

type Options = ConnectOptions<Connection>;

/**
 * Uses a session of this driver, or makes one, to the first portal that lets it in. The others come once the unit lies below
 * dm-multipath (paths.ts): two devices of one unit are not safe without.
 * @throws Unavailable if no portal can be used, FailedPrecondition
 */
export async function connectOne(
  { handle }: Pick<VolumeOnNode, 'handle'>,
  context: IscsiContext,
  options: Options,
): Promise<void> {
  const sessions = ourSessions(context.iqn, options.state.notes.note).filter((each) => isThrough(context, each));
  // The device of a volume in use stays at the session that it has.
  const having = sessions.filter((each) => lunsOf([each], context).length > 0);
  if (having.some(isLive)) return;
  if (having[0] !== undefined) throw new Unavailable(`volume ${handle}: ${stateOf(context, having[0])}.`);
  if (sessions.some(isLive)) return;
  const chap = chapIn(options.secrets, context.chap);
  const failures = sessions.map((each) => stateOf(context, each));
  for (const portal of context.portals) {
    if (sessions.some((each) => each.portal !== undefined && isSamePortal(each.portal, portal))) continue;
    const failure = await loginTo(context, portal, { ...options, chap });
    if (failure === undefined) return;
    failures.push(failure);
  }
  throw new Unavailable(`volume ${handle}: ${failures.join('; ')}.`);
}

/** Logs in to the portals that have no session. @returns the reason of each that has none afterwards */
export async function connectRest(context: IscsiContext, options: Options): Promise<readonly string[]> {
  const isMissing = (portal: Portal) =>
    !ourSessions(context.iqn, options.state.notes.note).some((each) => isThrough({ portals: [portal] }, each));
  const failures: string[] = [];
  for (const portal of context.portals.filter(isMissing)) {
    try {
      const chap = chapIn(options.secrets, context.chap);
      const failure = await loginTo(context, portal, { ...options, chap });
      if (failure !== undefined) failures.push(failure);
    } catch (error) {
      // The volume has a path: an unusable Secret is no reason to refuse it, as without other portals.
      if (!(error instanceof FailedPrecondition)) throw error;
      failures.push(error.message);
    }
  }
  return failures;
}

export function isLive({ state }: Pick<IscsiSession, 'state'>): boolean {
  return state === 'LOGGED_IN';
}

function stateOf({ iqn }: IscsiContext, { name, state }: IscsiSession): string {
  return `${iqn} does not answer (${name} is ${state}): is the target up?`;
}

/** @returns why it is not possible */
async function loginTo(
  context: IscsiContext,
  portal: Portal,
  { chap, queue, state }: Options & { readonly chap: Chap | undefined },
): Promise<string | undefined> {
  const { address, port } = portal;
  const { iqn } = context;
  const unreachable = await reachPortal(portal);
  if (unreachable !== undefined) return unreachable;
  const runner = await iscsiRunner(queue);
  if (runner === undefined) throw new FailedPrecondition(`${missingProgram}.`);
  const { notes } = state;
  const change = (connections: readonly Connection[]) => notes.write(queue, { ...notes.note, connections });
  const others = notes.note.connections.filter((each) => !isSamePortal(each, portal));
  const here = () => iscsiSessions(iqn).find((each) => isNamedOurs(each) && isThrough({ portals: [portal] }, each));
  const stranger = here();
  if (stranger !== undefined) {
    return `${stranger.name} to ${address}:${port} has this driver's name, but not its note: if nothing uses its devices, end it as docs/iscsi.md says`;
  }
  // Before it is made: then a new session is this driver's, even if this process dies now.
  await change([...others, { address, port }]);
  try {
    const record = nodeRecord(context, portal, chap);
    await step('iscsi/login', () => iscsiLogin(runner, { iface: ifaceName, iqn, address, port, record }));
    const session = here()?.id;
    if (session === undefined) return `${address}:${port}: the session ended as soon as it was made`;
    await change([...others, { address, port, session }]);
    return undefined;
  } catch (error) {
    if (!(error instanceof IscsiError)) throw error;
    // A login that was given up may still succeed: then its note stays until the volume leaves.
    if (error.code !== undefined && here() === undefined) await change(others);
    if (error.isMissing) throw new FailedPrecondition(`${missingProgram}.`);
    return `${address}:${port}: ${meaningOf(error, chap)}`;
  }
}

function meaningOf({ code, message }: IscsiError, chap: Chap | undefined): string {
  switch (code) {
    case iscsiCodes.unauthorized:
      return chap === undefined
        ? `the target wants CHAP (name a Secret in nodeStageSecretRef), or does not let the initiator name of this node in (${message})`
        : `the target refuses the name or the password of CHAP, or the initiator name of this node (${message})`;
    case iscsiCodes.refused:
      return chap?.target === undefined
        ? `the target has no such iqn here, or does not let the initiator name of this node in (${message})`
        : `the target does not prove itself by the name and the password of CHAP with _in, has no such iqn here, or does not let the initiator name of this node in (${message})`;
    case iscsiCodes.noDaemon:
      return `iscsid of the node does not run: start it (systemctl enable --now iscsid) (${message})`;
    case iscsiCodes.timedOut:
      return `the target ends the connection or does not answer: is the iqn right? (${message})`;
    default:
      return message;
  }
}
