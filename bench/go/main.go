// Servers of the Go stacks for `npm run bench`. The first argument selects one. Each prints its URL.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

var stacks = map[string]func(net.Listener) error{
	"connect":            serveConnect,
	"grpc":               serveGrpc,
	"grpc-gateway":       serveGatewayInProcess,
	"grpc-gateway-proxy": serveGatewayProxy,
	"vanguard":           serveVanguard,
}

func main() {
	if len(os.Args) != 2 || stacks[os.Args[1]] == nil {
		fail(fmt.Errorf("the argument must be one of: connect, grpc, grpc-gateway, grpc-gateway-proxy, vanguard"))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	go serveUsage()
	fmt.Printf("listens on http://%s\n", listener.Addr())
	fail(stacks[os.Args[1]](listener))
}

// serveHTTP serves HTTP/1.1, and HTTP/2 without TLS, on one port.
func serveHTTP(listener net.Listener, handler http.Handler) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: protocols}
	return server.Serve(listener)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
