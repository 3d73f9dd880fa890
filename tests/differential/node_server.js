'use strict';
// Tells on standard output, one JSON line each, what Node reads: a request when its body is complete, an error of its
// parser, and the end of the connection. Connections are told apart by the client's port. The client is told, too, in the
// form of recorder.py; with --quiet only the client, and only one that closes is done.

const http = require('http');

const isQuiet = process.argv.includes('--quiet');
const tell = (fact) => {
  if (!isQuiet || 'listening' in fact) process.stdout.write(JSON.stringify(fact) + '\n');
};

const server = http.createServer({ connectionsCheckingInterval: 100 }, (request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    tell({ port: request.socket.remotePort, method: request.method, target: request.url,
           body: Buffer.concat(parts).toString('hex') });
    const fields = [];
    for (let i = 0; i < request.rawHeaders.length; i += 2) fields.push(request.rawHeaders.slice(i, i + 2));
    const reading = { method: request.method, target: request.url, fields, body: Buffer.concat(parts).toString('base64') };
    response.setHeader('X-Reading', Buffer.from(JSON.stringify(reading)).toString('base64'));
    response.setHeader('Content-Length', 2);
    response.end('ok');
  });
  request.on('error', () => {});
});
const patience = isQuiet ? 20000 : 1000;  // also ends a connection on which nothing more comes
server.keepAliveTimeout = patience;
server.headersTimeout = patience;
server.requestTimeout = patience;
server.httpAllowHalfOpen = true;  // a client that has said all still wants its answers

server.on('clientError', (error, socket) => {
  tell({ port: socket.remotePort, error: error.code });
  // Bytes that only end too early are no error: who waits for more answers nothing.
  const isShort = ['HPE_INVALID_EOF_STATE', 'ERR_HTTP_REQUEST_TIMEOUT', 'ECONNRESET'].includes(error.code);
  if (isShort || !socket.writable) return socket.destroy();
  // Behind the answers to what came before the error, which take a few turns, and before the other side's end is seen.
  const refuse = (turns) => {
    if (turns) return process.nextTick(refuse, turns - 1);
    socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n', () => socket.destroy());
  };
  refuse(50);
});
server.on('checkExpectation', (request, response) => {
  tell({ port: request.socket.remotePort, error: 'EXPECTATION' });
  response.writeHead(417, { Connection: 'close' });
  response.end();
});
server.on('connect', (request, socket) => {
  tell({ port: socket.remotePort, method: request.method, target: request.url, body: '' });
  socket.end();
});
server.on('connection', (socket) => {
  const port = socket.remotePort;
  socket.on('close', () => tell({ port, closed: true }));
  // By then all of the bytes are read. After a broken upgrade Node itself would wait for ever.
  socket.on('end', () => setTimeout(() => socket.destroy(), 1000));
});
server.listen(0, '127.0.0.1', () => tell({ listening: server.address().port }));
