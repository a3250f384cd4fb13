import type { Logger } from 'pino';
import { addService } from './call.ts';
import type { RegistrationHandlers } from './generated/types.ts';
import { type Listener, listen, newServer } from './listener.ts';

/** The facts about the driver that the kubelet needs. */
export interface RegistrationOptions {
  /** The path where the kubelet looks for the driver: a socket in its `plugins_registry` directory. */
  readonly socketPath: string;
  readonly driverName: string;
  /** The path of the socket with the CSI services, as the kubelet sees it. */
  readonly endpointPath: string;
  readonly log: Logger;
}

/** Serves `pluginregistration.Registration`, so that the kubelet finds the driver without a registrar sidecar. */
export async function serveRegistration(options: RegistrationOptions): Promise<Listener> {
  const server = newServer();
  addService(server, 'pluginregistration.Registration', registrationHandlers(options), { log: options.log });
  return listen(server, options.socketPath);
}

function registrationHandlers({ driverName, endpointPath, log }: RegistrationOptions): RegistrationHandlers {
  return {
    GetInfo: async () => ({
      type: 'CSIPlugin',
      name: driverName,
      endpoint: endpointPath,
      // The version of the kubelet's plugin API for CSI drivers, not that of CSI.
      supported_versions: ['1.0.0'],
    }),
    NotifyRegistrationStatus: async ({ plugin_registered: registered, error }) => {
      if (registered) log.info({ driver: driverName }, 'registered with the kubelet');
      else log.error({ driver: driverName, reason: error }, 'the kubelet refused the driver');
      return {};
    },
  };
}
