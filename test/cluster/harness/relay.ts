import { once } from 'node:events';
import { connect, createServer, type ListenOptions, type Server, type TcpNetConnectOpts } from 'node:net';

/** Passes on whatever comes to a port. @returns once it listens */
export async function relay(from: ListenOptions, to: TcpNetConnectOpts): Promise<Server> {
  const server = createServer((near) => {
    const far = connect(to);
    near.pipe(far).pipe(near);
    near.on('error', () => far.destroy());
    far.on('error', () => near.destroy());
  });
  server.listen(from);
  await once(server, 'listening');
  return server;
}
