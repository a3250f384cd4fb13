import type { TopologySegments } from '../../csi/parse.ts';
import { mismatch } from '../../volume/capability.ts';
import { formatDuration } from '../../volume/duration.ts';
import { defaultLayout } from '../../volume/layout.ts';
import type { VolumeRecord, VolumeSource } from '../../volume/record.ts';
import { type CapacityRange, satisfies } from '../../volume/size.ts';
import type { VolumeRequest } from '../request.ts';
import { allowsHere } from '../topology.ts';
import { parseMutable } from './parameters.ts';

/** Default when a request names no provisioning: the same for all, independent of the pool. */
const usual = 'thin';

/** A volume that already has the name, and the pool it is in. */
export interface Existing {
  readonly poolName: string;
  readonly record: VolumeRecord;
}

/**
 * Returns the reasons why the volume does not answer the request; empty if it does (CV14 to CV17). A choice that the
 * request leaves to the driver matches whatever was chosen the first time, even if the defaults have changed since.
 */
export function differences(
  { record, poolName }: Existing,
  request: VolumeRequest,
  here: TopologySegments | undefined,
): string[] {
  const { demand, parameters } = request;
  // Mutable properties may have changed: both the original request and a request for the current state are replays.
  const atFirst = parseMutable({ ...record.parameters, ...record.mutableParameters });
  const isEither = <T>(asked: T, first: T, now: T) => asked === first || asked === now;
  const found = [
    parameters.poolName !== undefined &&
      parameters.poolName !== poolName &&
      // A section that stands for several pools.
      parameters.poolName !== record.parameters['pool'] &&
      `it is in pool ${poolName}`,
    parameters.poolSelector !== undefined &&
      parameters.poolSelector.text !== record.parameters['poolSelector'] &&
      `its poolSelector is ${record.parameters['poolSelector'] ?? 'none'}`,
    !satisfies(record.sizeBytes, request.range) &&
      `it has ${record.sizeBytes} bytes, not ${describeRange(request.range)}`,
    mismatch(record.content, demand.access),
    demand.modes.join() !== record.accessModes.join() && `it was made for ${record.accessModes.join(', ')}`,
    !isEither(parameters.provisioning ?? usual, atFirst.provisioning ?? usual, record.provisioning) &&
      `its provisioning is ${record.provisioning}`,
    !isEither(parameters.undeleteSeconds, atFirst.undeleteSeconds, record.undeleteSeconds) &&
      `its undelete is ${record.undeleteSeconds === undefined ? "its pool's" : formatDuration(record.undeleteSeconds)}`,
    mkfsOptionsOf(record) !== parameters.mkfsOptions && `its mkfsOptions are '${mkfsOptionsOf(record)}'`,
    (parameters.layout ?? defaultLayout) !== layoutOf(record) && `its layout is ${layoutOf(record)}`,
    parameters.wipe !== record.parameters['wipe'] && `its wipe is ${record.parameters['wipe'] ?? "its pool's"}`,
    !isEncryptedAsAsked(record, request) && `its encryption is ${record.encryption?.type ?? 'none'}`,
    describeSource(request.source) !== describeSource(record.source) &&
      `it was made from ${describeSource(record.source)}`,
    !allowsHere(request.topology, here) && 'it is on this node, which accessibility_requirements exclude',
  ];
  return found.filter((difference) => typeof difference === 'string');
}

/** Compares the encryption. A clone has the encryption of its source, even if the request names none. */
function isEncryptedAsAsked({ encryption, source }: VolumeRecord, { parameters }: VolumeRequest): boolean {
  if (parameters.encryption === encryption?.type) return true;
  return source !== undefined && parameters.encryption === undefined;
}

function describeSource(source: VolumeSource | undefined): string {
  return source === undefined ? 'nothing' : `${source.type} ${source.id}`;
}

/** The text as it came: only the keys of Kubernetes may change from one try to the next. */
function mkfsOptionsOf(record: VolumeRecord): string {
  return record.parameters['mkfsOptions'] ?? '';
}

function layoutOf(record: VolumeRecord): string {
  return record.parameters['layout'] ?? defaultLayout;
}

function describeRange(range: CapacityRange | undefined): string {
  const required = range?.requiredBytes === undefined ? [] : [`at least ${range.requiredBytes}`];
  const limit = range?.limitBytes === undefined ? [] : [`at most ${range.limitBytes}`];
  return [...required, ...limit].join(' and ');
}
