"""A small OpenID Connect provider in a process's thread: discovery, keys that rotate, tokens of any kind."""

import base64
import contextlib
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "bartserve"
KINDS = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm}


class Provider:
    """A provider; `keys` are the private keys whose public halves it publishes, by name."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, Any]] = {}
        self.published: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.responds = True
        self.drips = False  # whether headers come one by one, and nothing after them
        self.rotate("first")
        self._server: ThreadingHTTPServer | None = None

    @property
    def issuer(self) -> str:
        """The issuer, which is where the provider listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}/realms/team"

    def rotate(self, name: str, algorithm: str = "RS256") -> None:
        """Publish a new key instead of the old ones."""
        private = new_key(algorithm)
        self.keys[name] = algorithm, private
        public = KINDS[algorithm].to_jwk(private.public_key(), as_dict=True)
        self.published = [public | {"kid": name, "alg": algorithm, "use": "sig"}]

    def token(
        self, name: str = "first", *, key: Any = None, algorithm: str | None = None, **claims: Any
    ) -> str:
        """Sign a token; a claim of None is left out."""
        usual, private = self.keys.get(name, ("RS256", None))
        return jwt.encode(self.claims(**claims), key or private, algorithm or usual, headers={"kid": name})

    def claims(self, **claims: Any) -> dict[str, Any]:
        """Return the claims of a usual token, with others instead."""
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 300}
        usual |= {"scope": "openid bartserve:read", "team": "research", "preferred_username": "Ann A."}
        return {name: value for name, value in (usual | claims).items() if value is not None}

    def public_pem(self, name: str = "first") -> bytes:
        """Return the PEM text of a public key, as a forger has it."""
        public = self.keys[name][1].public_key()
        return bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    @contextlib.contextmanager
    def serving(self) -> Iterator["Provider"]:
        """Serve discovery and keys."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                if provider.drips:
                    with contextlib.suppress(OSError):
                        for number in range(200):
                            self.wfile.write(b"HTTP/1.1 200 OK\r\n" if number == 0 else b"X: y\r\n")
                            time.sleep(0.02)
                    return
                documents = {
                    "/realms/team/.well-known/openid-configuration": {
                        "issuer": provider.issuer,
                        "jwks_uri": f"{provider.issuer}/keys",
                    },
                    "/realms/team/keys": {"keys": provider.published},
                }
                known = provider.responds and self.path in documents
                content = json.dumps(documents.get(self.path)).encode()
                self.send_response(200 if known else 503)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def new_key(algorithm: str = "RS256") -> Any:
    """Make a private key."""
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(65537, 2048)


def unsigned(claims: dict[str, Any], name: str = "first", algorithm: str = "none") -> str:
    """Write a token without a signature, as a forger does."""
    parts = ({"alg": algorithm, "typ": "JWT", "kid": name}, claims)
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*texts, ""])


def confused(claims: dict[str, Any], public: bytes, name: str = "first") -> str:
    """Sign by HS256 with the text of a public key, which libraries refuse to do."""
    head = unsigned(claims, name, "HS256")[:-1]
    mark = hmac.new(public, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"
