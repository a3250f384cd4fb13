import { join } from 'node:path';
import {
  type ConfigSource,
  driverNamePattern,
  type LogLevel,
  logLevels,
  type Parsed,
  whyUnreadable,
} from './config.ts';
import { EnvironmentReader, type HttpAddress } from './environment.ts';

/** The configuration of `holdfast controller`. */
export interface ControllerConfig {
  readonly driverName: string;
  /** Name of this replica in the log: its pod's name. */
  readonly name: string;
  readonly socketPath: string;
  readonly linkAddress: HttpAddress;
  /** Address of metrics and health; undefined: not served. */
  readonly httpAddress: HttpAddress | undefined;
  /** Address for views of the fleet; undefined: not served. */
  readonly viewAddress: HttpAddress | undefined;
  /** Time for which a node may be away before events on its claims report it; undefined: no events. */
  readonly eventsAfterMs: number | undefined;
  /** Effect of the taint on nodes with a pool in quarantine; undefined: no taint. */
  readonly taintQuarantine: (typeof taintEffects)[number] | undefined;
  /** required: volumes are published to their nodes before they are staged; the nodes' drivers must have the same. */
  readonly attach: 'none' | 'required';
  /** Sends claims of copies that wait for their pods to the nodes of their sources. */
  readonly sendsCopies: boolean;
  readonly logLevel: LogLevel;
  readonly api: { readonly url: URL; readonly authorityPath: string; readonly tokenPath: string };
  readonly namespace: string;
  readonly secretName: string;
  /** The user that nodes' tokens must belong to: `system:serviceaccount:NAMESPACE:NAME`. */
  readonly nodeUser: string;
}

/** NoExecute is not allowed: it would end pods whose volumes are healthy. */
const taintEffects = ['NoSchedule', 'PreferNoSchedule'] as const;

const accountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';
/** A DNS label or subdomain, as Kubernetes requires for the names of objects. */
const objectName = { fits: (name: string) => name.length <= 253 && /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name) };

/** The configuration, or every mistake in it. */
export async function parseControllerConfig(source: ConfigSource): Promise<Parsed<ControllerConfig>> {
  const reader = new EnvironmentReader(source.environment);
  reader.refuseMisspelled();
  const socketPath = reader.endpoint('CSI_ENDPOINT');
  if (reader.text('CSI_ENDPOINT') === undefined) {
    reader.problems.push('CSI_ENDPOINT is not set: name the socket to listen on, such as unix:///csi/csi.sock');
  }
  const account = reader.path('HOLDFAST_SERVICE_ACCOUNT_DIR', accountDirectory);
  const url = reader.url('HOLDFAST_API_SERVER', inCluster(reader));
  if (url === undefined && reader.text('HOLDFAST_API_SERVER') === undefined) {
    reader.problems.push(
      'HOLDFAST_API_SERVER is not set, and this is no pod: name the API server, such as https://10.0.0.1:6443',
    );
  }
  const namespace = readNamespace(source, join(account, 'namespace'), reader);
  const linkAddress = reader.httpAddress('HOLDFAST_LINK_ADDRESS') ?? { host: undefined, port: 9443 };
  const httpAddress = reader.httpAddress('HOLDFAST_HTTP_ADDRESS');
  const viewAddress = reader.httpAddress('HOLDFAST_VIEW_ADDRESS');
  const eventsAfterMs = reader.durationMs('HOLDFAST_EVENTS_AFTER');
  const taint = reader.oneOf('HOLDFAST_TAINT_QUARANTINE', [...taintEffects, 'none'], 'none');
  const attach = reader.oneOf('HOLDFAST_ATTACH', ['none', 'required'], 'none');
  const sendCopies = reader.oneOf('HOLDFAST_SEND_COPIES', ['true', 'false'], 'false');
  const driverName = reader.matching('HOLDFAST_DRIVER_NAME', 'holdfast.csi.dev', {
    fits: (name) => name.length <= 63 && driverNamePattern.test(name),
    wants: 'a lower-case domain name of at most 63 characters, such as holdfast.csi.dev',
  });
  const wants = 'the name of an object in Kubernetes';
  const secretName = reader.matching('HOLDFAST_CONTROLLER_SECRET', 'holdfast-controller', { ...objectName, wants });
  const accountName = reader.matching('HOLDFAST_NODE_ACCOUNT', 'holdfast-node', { ...objectName, wants });
  const logLevel = reader.oneOf('HOLDFAST_LOG_LEVEL', logLevels, 'info');
  if (reader.problems.length > 0 || socketPath === undefined || url === undefined) return { problems: reader.problems };
  return {
    config: {
      driverName,
      name: source.hostName,
      socketPath,
      linkAddress,
      httpAddress,
      viewAddress,
      eventsAfterMs,
      taintQuarantine: taint === 'none' ? undefined : taint,
      attach,
      sendsCopies: sendCopies === 'true',
      logLevel,
      api: { url, authorityPath: join(account, 'ca.crt'), tokenPath: join(account, 'token') },
      namespace,
      secretName,
      nodeUser: `system:serviceaccount:${namespace}:${accountName}`,
    },
  };
}

function inCluster(reader: EnvironmentReader): string | undefined {
  const host = reader.text('KUBERNETES_SERVICE_HOST');
  if (host === undefined) return undefined;
  const port = reader.text('KUBERNETES_SERVICE_PORT') ?? '443';
  return `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function readNamespace(source: ConfigSource, path: string, reader: EnvironmentReader): string {
  try {
    return source.readFile(path).trim();
  } catch (error) {
    reader.problems.push(`HOLDFAST_SERVICE_ACCOUNT_DIR: ${whyUnreadable(path, error)}`);
    return '';
  }
}
