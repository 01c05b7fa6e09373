"""Forwards a port as a kubelet does behind the API server: a websocket whose frames begin with their channel.

Kubernetes v1.36, staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go: two channels for each port,
data and errors. Each begins with a frame that repeats the port in two bytes.
"""

import base64
import hashlib
import http.server
import socket
import threading

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Of RFC 6455, 1.3."""
DATA, ERRORS = b"\0", b"\1"
CHUNK = 65536


def forward(request: http.server.BaseHTTPRequestHandler, asked: int, port: int) -> None:
    """Answers a request for the port `asked` of a pod with the local `port`, until either side closes."""
    key = request.headers["Sec-WebSocket-Key"] + GUID
    request.send_response(101)
    request.send_header("Upgrade", "websocket")
    request.send_header("Connection", "Upgrade")
    request.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
    request.end_headers()
    request.close_connection = True
    websocket, caller, lock = Connection(ConnectionType.SERVER), request.connection, threading.Lock()

    def send(event: BytesMessage | CloseConnection) -> None:
        with lock:
            caller.sendall(websocket.send(event))

    for channel in (DATA, ERRORS):
        send(BytesMessage(data=channel + asked.to_bytes(2, "little")))
    with socket.create_connection(("127.0.0.1", port)) as server:

        def answer() -> None:
            try:
                while data := server.recv(CHUNK):
                    send(BytesMessage(data=DATA + data))
                send(CloseConnection(code=1000))
            except OSError:
                pass  # the caller has hung up

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            while data := caller.recv(CHUNK):
                websocket.receive_data(data)
                for event in websocket.events():
                    if isinstance(event, BytesMessage):
                        server.sendall(bytes(event.data[1:]))
                    elif isinstance(event, Ping):
                        with lock:
                            caller.sendall(websocket.send(event.response()))
                    elif isinstance(event, CloseConnection):
                        return
        except OSError:
            pass  # either side has closed
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
