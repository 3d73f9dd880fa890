// Servers that tests start inside a sandbox; Python is all they need.

// GET /path: path and fields as JSON. GET /events: one line now, one each time /tick is asked for.
// POST /echo: every chunk comes back as it arrives. GET /connection: how many requests came on this connection.
export const HTTP_SERVER = `
import http.server, json, socketserver, threading
ticks = threading.Semaphore(0)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    count = 0
    def answer(self, body, kind='application/json'):
        self.send_response(200); self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_GET(self):
        self.count += 1
        if self.path == '/tick':
            ticks.release(); return self.answer(b'{}')
        if self.path != '/events':
            return self.answer(json.dumps({'path': self.path, 'host': self.headers['Host'], 'count': self.count,
                'fields': {k.lower(): v for k, v in self.headers.items()}}).encode())
        self.send_response(200); self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
        for n in range(3):
            text = b'data: %d\\n\\n' % n
            self.wfile.write(b'%x\\r\\n' % len(text) + text + b'\\r\\n'); self.wfile.flush()
            ticks.acquire(timeout=30)
        self.wfile.write(b'0\\r\\n\\r\\n')
    def do_POST(self):
        self.send_response(200); self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
        while True:
            size = int(self.rfile.readline(), 16)
            data = self.rfile.read(size); self.rfile.readline()
            self.wfile.write(b'%x\\r\\n' % size + data + b'\\r\\n'); self.wfile.flush()
            if size == 0: return
    def log_message(self, *args): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
Server(('127.0.0.1', 8000), Handler).serve_forever()
`

// Echoes messages, and closes with 4001 when told "close".
export const SOCKET_SERVER = `
import base64, hashlib, socket, struct, threading
def read(peer, size):
    data = b''
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece: raise EOFError
        data += piece
    return data
def serve(peer):
    head = b''
    while b'\\r\\n\\r\\n' not in head: head += peer.recv(4096)
    fields = {k.lower(): v.strip() for k, _, v in (l.partition(':') for l in head.decode().split('\\r\\n')[1:])}
    mark = base64.b64encode(hashlib.sha1((fields['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()).decode()
    chosen = 'Sec-WebSocket-Protocol: chat\\r\\n' if 'chat' in fields.get('sec-websocket-protocol', '') else ''
    peer.sendall(f'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n{chosen}Sec-WebSocket-Accept: {mark}\\r\\n\\r\\n'.encode())
    try:
        while True:
            first, second = read(peer, 2)
            size = second & 127
            if size == 126: size, = struct.unpack('>H', read(peer, 2))
            elif size == 127: size, = struct.unpack('>Q', read(peer, 8))
            key = read(peer, 4); data = bytes(b ^ key[i & 3] for i, b in enumerate(read(peer, size)))
            code = first & 15
            if code == 8: peer.sendall(bytes([0x88, size]) + data); return
            if data == b'close': peer.sendall(bytes([0x88, 2]) + struct.pack('>H', 4001)); return
            length = bytes([size]) if size < 126 else bytes([126]) + struct.pack('>H', size) if size < 65536 else bytes([127]) + struct.pack('>Q', size)
            peer.sendall(bytes([first]) + length + data)
    except (EOFError, OSError): pass
    finally: peer.close()
server = socket.create_server(('127.0.0.1', 8100))
while True: threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
`

export async function startServer(sandbox, name, text, port) {
  await sandbox.files.write(`/tmp/${name}_server.py`, text)
  const command = await sandbox.commands.run(`python3 /tmp/${name}_server.py`, { background: true, timeoutMs: 0 })
  command.wait().catch(() => {})
  await sandbox.commands.run(`for i in $(seq 200); do (echo > /dev/tcp/127.0.0.1/${port}) 2>/dev/null && exit; sleep 0.05; done; exit 1`)
}
