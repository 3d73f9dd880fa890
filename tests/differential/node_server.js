'use strict';
// Tells on standard output, one JSON line each, what Node reads: a request when its body is complete, an error of its
// parser, and the end of the connection. Connections are told apart by the client's port.

const http = require('http');

const tell = (fact) => process.stdout.write(JSON.stringify(fact) + '\n');

const server = http.createServer({ connectionsCheckingInterval: 100 }, (request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    tell({ port: request.socket.remotePort, method: request.method, target: request.url,
           body: Buffer.concat(parts).toString('hex') });
    response.setHeader('Content-Length', 2);
    response.end('ok');
  });
  request.on('error', () => {});
});
server.keepAliveTimeout = 1000;  // also ends a connection on which nothing more comes
server.headersTimeout = 1000;
server.requestTimeout = 1000;

server.on('clientError', (error, socket) => {
  tell({ port: socket.remotePort, error: error.code });
  socket.destroy();
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
});
server.listen(0, '127.0.0.1', () => tell({ listening: server.address().port }));
