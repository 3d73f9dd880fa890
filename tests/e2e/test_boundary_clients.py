"""Languages whose tools are too large to be there for every run of the tests: what is written in them trusts the authority, too."""

from boundary.cases import A, BoundaryTest
from boundary.world import enter

GO = """package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	request, _ := http.NewRequest("GET", os.Args[1], nil)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("GITHUB_TOKEN"))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	io.Copy(os.Stdout, answer.Body)
}
"""
JAVA = """import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

class Ask {
  public static void main(String[] words) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(words[0])).header("Authorization", "Bearer " + System.getenv("GITHUB_TOKEN")).build();
    System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
  }
}
"""


def setUpModule():
    enter()


class Clients(BoundaryTest):
    def assert_served(self, job, protocol):
        """It got the answer of the host, which was sent the value in place of the stub."""
        self.assertIsNone(self.world.find_leak(job.output + job.error), job)
        self.assertEqual(job.code, 0, job)
        self.assertIn(f"Bearer {self.stubs['GITHUB_TOKEN']}", job.text, job)
        events, requests = self.settle()
        self.assertEqual([request["protocol"] for request in requests], [protocol])
        self.check_oracle(job.output, events, requests, 1)

    def test_go_trusts_the_authority(self):
        self.sandbox.write("/tmp/ask.go", GO.encode())
        built = self.sandbox.run("cd /tmp && GOCACHE=/tmp/go-cache GO111MODULE=off GOFLAGS= go build -o ask ask.go", seconds=600)
        self.assertEqual(built.code, 0, built)
        for line in (f"/tmp/ask https://{A}/echo", f"env -u SSL_CERT_FILE /tmp/ask https://{A}/echo",
                     f"HTTPS_PROXY=http://127.0.0.1:3128 /tmp/ask https://{A}/echo"):
            with self.subTest(line):
                self.assert_served(self.sandbox.run(line), "http/1.1")

    def test_java_trusts_the_authority(self):
        self.sandbox.write("/tmp/Ask.java", JAVA.encode())
        for line in (f"java /tmp/Ask.java https://{A}/echo", f"env -u JAVA_TOOL_OPTIONS java /tmp/Ask.java https://{A}/echo"):
            with self.subTest(line):
                self.assert_served(self.sandbox.run(line, seconds=120), "http/1.1")


del BoundaryTest  # or it would run by itself
