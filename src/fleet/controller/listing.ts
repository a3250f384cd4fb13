import { type PageRequest, parsePageRequest } from '../../controller/listing/page.ts';
import { decode, encode, type Method } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { withoutSecrets } from '../../csi/without-secrets.ts';
import { parseSnapshotId, parseVolumeId } from '../../volume/id.ts';
import type { Route } from '../routing/by-id.ts';
import { mergePage, type PagePart, planPage } from '../routing/page.ts';
import type { FleetState } from './fleet-state.ts';
import { forward } from './forward.ts';
import type { Sessions } from './sessions.ts';

export interface Listing {
  readonly state: FleetState;
  readonly sessions: Sessions;
  readonly method: Method;
  readonly deadline: Date | undefined;
}

/** The fields that requests and answers of both lists share. */
interface AnyRequest {
  readonly max_entries: number;
  readonly starting_token: string;
}

interface AnyResponse<Entry> {
  readonly entries: readonly Entry[];
  readonly next_token: string;
}

export function listVolumes(listing: Listing, request: wire.ListVolumesRequest): Promise<Buffer> {
  const page = parsePageRequest(request.starting_token, request.max_entries, parseVolumeId);
  const idOf = ({ volume }: wire.ListVolumesResponseEntry) => volume?.volume_id ?? '';
  return list(listing, request, page, listing.state.ids('VOLUME'), idOf);
}

interface OneSnapshot {
  /** @throws HoldfastError if it has gone from that node, which has none, to another one */
  refuseGone(node: string): Promise<void>;
  routeOf(id: string): Promise<Route>;
}

/** Lists all snapshots, or those of one volume; a request for one snapshot goes to its node. */
export async function listSnapshots(
  listing: Listing,
  request: wire.ListSnapshotsRequest,
  bytes: Buffer,
  { refuseGone, routeOf }: OneSnapshot,
): Promise<Buffer> {
  const { method, sessions, state } = listing;
  const page = parsePageRequest(request.starting_token, request.max_entries, parseSnapshotId);
  const { snapshot_id: id, source_volume_id: sourceId } = request;
  if (id !== '') {
    const route = await routeOf(id);
    const call = { method, request: bytes, deadline: listing.deadline };
    if (route.to !== 'all') {
      const answer = await forward(sessions, route, call);
      if (route.to === 'node' && entriesIn(method, answer) === 0) await refuseGone(route.node);
      return answer;
    }
    // Unknown ids are no error here (LS03): each node answers that it does not have them. It may move in the first look, to a node that
    // has been asked already.
    const ask = () =>
      Promise.all(
        route.nodes.map((node) => forward(sessions, { to: 'node', node }, { ...call, request: bare(method, bytes) })),
      );
    const found = (answers: readonly Buffer[]) => answers.find((answer) => entriesIn(method, answer) > 0);
    return found(await ask()) ?? found(await ask()) ?? encode(method.responseType, {});
  }
  const ids = state.ids('SNAPSHOT', (entry) => sourceId === '' || entry.sourceId === sourceId);
  const idOf = ({ snapshot }: wire.ListSnapshotsResponseEntry) => snapshot?.snapshot_id ?? '';
  return list(listing, request, page, ids, idOf);
}

function bare({ requestType }: Method, bytes: Buffer): Buffer {
  return withoutSecrets(requestType, bytes);
}

function entriesIn({ responseType }: Method, answer: Buffer): number {
  return decode<AnyResponse<unknown>>(responseType, answer).entries.length;
}

async function list<Entry extends object>(
  { deadline, method, sessions, state }: Listing,
  request: AnyRequest,
  page: PageRequest<string>,
  ids: ReadonlyMap<string, readonly string[]>,
  idOf: (entry: Entry) => string,
): Promise<Buffer> {
  const plan = planPage(state, ids, page);
  const parts = await Promise.all(
    plan.parts.map(async ({ maximumEntries, node }): Promise<PagePart<Entry>> => {
      const own = encode(method.requestType, { ...request, max_entries: maximumEntries });
      const answer = await sessions.get(node).calls.call({ method: method.path, request: own, deadline });
      const { entries, next_token: nextToken } = decode<AnyResponse<Entry>>(method.responseType, answer);
      return { entries: entries.map((entry) => ({ id: idOf(entry), entry })), nextToken };
    }),
  );
  const { entries, nextToken } = mergePage(parts, plan);
  return encode(method.responseType, { entries, next_token: nextToken });
}
